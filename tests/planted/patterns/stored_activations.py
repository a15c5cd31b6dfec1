"""An activation of 4 MiB that the forward pass copies to the host and the backward pass back, on the same stream."""

from __future__ import annotations

from tests.planted import Copy, Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_BYTES, _NS = 4 * 1024 * 1024, 200_000
SAVING_NS = (2 * _NS * STEPS, 2 * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    with host.op("aten::cos", dims=[[1024, 1024]], sequence=scene.count("sequence")) as forward:
        host.launch(stream, "cos_kernel", 100_000)
    with host.op("aten::copy_"):
        host.copy(stream, Copy.DEVICE_TO_PINNED, _BYTES, _NS)
    with host.backward("CosBackward0", forward, host):
        with host.op("aten::copy_"):
            host.copy(stream, Copy.PINNED_TO_DEVICE, _BYTES, _NS)
        with host.op("aten::sin", dims=[[1024, 1024]]):
            host.launch(stream, "sin_kernel", 100_000)
