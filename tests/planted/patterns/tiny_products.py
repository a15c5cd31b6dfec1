"""Twenty products of 16 x 16 matrices, one after another."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_COUNT, _NS = 20, 4_000
SAVING_NS = ((_COUNT - 1) * _NS * STEPS, (_COUNT - 1) * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    for _ in range(_COUNT):
        with host.op("aten::mm", dims=[[16, 16], [16, 16]], types=["c10::BFloat16"] * 2):
            host.launch(stream, "ampere_bf16_s16816gemm_bf16_64x64", _NS)
