"""Each step launches kernels that are far shorter than a launch takes."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import training_loop

_OPS = 400
_OP_NS, _CALL_NS, _SHORT_NS = 20_000, 10_000, 4_000
SAVING_NS = 1_000_000, 4 * _OPS * (_OP_NS + _CALL_NS)


def planted() -> Scene:
    """The host is ahead by the work of half a step, and falls behind by the end of the small kernels."""
    return training_loop(_many)


def _many(host: Thread, stream: Stream, _: int) -> None:
    for _number in range(_OPS):
        with host.op("aten::sin", _OP_NS, dims=[[64, 64]]):
            host.launch(stream, "vectorized_sin_kernel", _SHORT_NS, call_ns=_CALL_NS)
