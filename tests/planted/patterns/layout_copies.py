"""A transposed tensor that is made contiguous."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_NS = 50_000
SAVING_NS = (_NS * STEPS, _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    dims, strides = [[512, 1024], [512, 1024], []], [[1024, 1], [1, 512], []]
    with (
        host.op("aten::contiguous", dims=dims[:1], strides=strides[1:2]),
        host.op("aten::clone", dims=dims[:1], strides=strides[1:2]),
        host.op("aten::copy_", dims=dims, strides=strides),
    ):
        host.launch(stream, "copy_kernel", _NS)
