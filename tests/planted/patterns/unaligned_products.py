"""A product in bfloat16 whose rows have 1001 elements, in four times its least time."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_M, _K, _N, _NS = 4096, 1001, 4096, 400_000
_LEAST = 2 * _M * _K * _N / 312e12 * 1e9
SAVING_NS = (int(STEPS * (_NS - _LEAST - 1)), int(STEPS * (_NS - _LEAST)))


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    with host.op("aten::mm", dims=[[_M, _K], [_K, _N]], types=["c10::BFloat16"] * 2):
        host.launch(stream, "ampere_bf16_s16816gemm_bf16_128x64", _NS)
