"""Scenes whose device is busy all the time: what a body plants in each step is all that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.builders import Json
from tests.planted import A100, Scene, Stream, Thread, device_scene

STEPS = 3
"""Steps of each scene."""

LONG_NS = 2_000_000
"""Duration of the kernels around a body: the host is ahead of the device all the time."""


def busy(
    body: Callable[[Scene, Thread, Stream], None], devices: Sequence[Json] = (A100,), world_size: int = 1
) -> Scene:
    """A scene of `STEPS` steps, in each of which a body plants what it likes between two long kernels.

    Args:
        body: takes the scene, its main thread and its stream.
        devices: as of `Scene`.
        world_size: the same.
    """
    scene, host, stream = device_scene(0, world_size, devices)
    for number in range(1, STEPS + 1):
        with host.step(number), host.frame("train.py(10): step"):
            _long(host, stream, 8192)
            body(scene, host, stream)
            _long(host, stream, 4096)
            host.until(stream.free - LONG_NS // 2)
    host.synchronize()
    return scene


def _long(host: Thread, stream: Stream, columns: int) -> None:
    """A long kernel; of another size than that before it, whose result it does not take."""
    with host.op("aten::gelu", dims=[[8192, columns]]):
        host.launch(stream, "gelu_kernel", LONG_NS)


def cast(host: Thread, stream: Stream, source: str, target: str, ns: int) -> None:
    """A cast of a tensor of (512, 512) from a type to another, whose kernel takes `ns`."""
    dims = [[512, 512], [512, 512], []]
    with (
        host.op("aten::to", dims=dims[:1], types=[source]),
        host.op("aten::_to_copy", dims=dims[:1], types=[source]),
        host.op("aten::copy_", dims=dims, types=[target, source, "Scalar"]),
    ):
        host.launch(stream, "copy_kernel", ns)
