"""A product in float32 that runs outside of the tensor cores of an A100."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_NS = 200_000
_LEAST_NS = 2 * 1024**3 / (312e12 / 2) * 1e9
"""What the product takes at half of an A100's peak in 16 bits."""
SAVING_NS = (int(STEPS * (_NS - _LEAST_NS)), int(STEPS * (_NS - _LEAST_NS + 1)))


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    with host.op("aten::mm", dims=[[1024, 1024], [1024, 1024]]):
        host.launch(stream, "ampere_sgemm_128x64_nn", _NS)
