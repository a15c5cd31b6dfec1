"""Each step asks for the indices of what is not zero."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_PYTHON_NS = 2_000_000
SAVING_NS = STEPS * _PYTHON_NS, STEPS * (_PYTHON_NS + 100_000)


def planted() -> Scene:
    """The device runs dry in each step."""
    return training_loop(_mask)


def _mask(host: Thread, stream: Stream, _: int) -> None:
    with host.op("aten::nonzero", dims=[[64, 64]]):
        host.synchronize(stream)
    host.spend(_PYTHON_NS)
