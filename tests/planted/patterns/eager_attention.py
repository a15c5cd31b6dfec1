"""Attention of 16 heads and 512 tokens: a product, a scale, a softmax and a product."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_HEADS, _TOKENS, _WIDTH = 16, 512, 64
_PRODUCT_NS, _SCALE_NS, _SOFTMAX_NS = 60_000, 50_000, 80_000
_NEEDED = 2 * 2 * _HEADS * _TOKENS * _TOKENS * _WIDTH / 312e12 * 1e9
_SAVED = 2 * _PRODUCT_NS + _SCALE_NS + _SOFTMAX_NS - _NEEDED
SAVING_NS = (int(STEPS * (_SAVED - 1)), int(STEPS * _SAVED))


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    half = "c10::BFloat16"
    scores = [1, _HEADS, _TOKENS, _TOKENS]
    with host.op("aten::bmm", dims=[[_HEADS, _TOKENS, _WIDTH], [_HEADS, _WIDTH, _TOKENS]], types=[half] * 2):
        host.launch(stream, "ampere_bf16_s16816gemm_bf16_128x64", _PRODUCT_NS)
    with host.op("aten::mul", dims=[scores, []], types=[half, "double"]):
        host.launch(stream, "elementwise_kernel", _SCALE_NS)
    with host.op("aten::_softmax", dims=[scores, [], []], types=[half, "Scalar", "Scalar"]):
        host.launch(stream, "softmax_kernel", _SOFTMAX_NS)
    with host.op("aten::bmm", dims=[[_HEADS, _TOKENS, _TOKENS], [_HEADS, _TOKENS, _WIDTH]], types=[half] * 2):
        host.launch(stream, "ampere_bf16_s16816gemm_bf16_128x64", _PRODUCT_NS)
