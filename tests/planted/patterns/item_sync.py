"""Each step reads a value, and then computes on the host for a while."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_PYTHON_NS = 2_000_000
SAVING_NS = STEPS * _PYTHON_NS, STEPS * (_PYTHON_NS + 100_000)


def planted() -> Scene:
    """The device runs dry in each step."""
    return training_loop(_read)


def _read(host: Thread, stream: Stream, _: int) -> None:
    with host.frame("train.py(30): loss_of"), host.op("aten::item"), host.op("aten::_local_scalar_dense"):
        host.synchronize(stream)
    host.spend(_PYTHON_NS)
