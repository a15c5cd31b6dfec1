"""A product in float32 that runs outside of the tensor cores of an A100."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

__all__ = ["SAVING_NS", "planted"]

_NS = 200_000
SAVING_NS = (int(STEPS * _NS * (1 - 19.5 / 312)), int(STEPS * _NS * (1 - 19.5 / 312)))


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    with host.op("aten::mm", dims=[[1024, 1024], [1024, 1024]]):
        host.launch(stream, "ampere_sgemm_128x64_nn", _NS)
