"""Each step waits for the device before it reads the clock."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_PYTHON_NS = 2_000_000
SAVING_NS = STEPS * _PYTHON_NS, STEPS * (_PYTHON_NS + 100_000)


def planted() -> Scene:
    """The device runs dry in each step."""
    return training_loop(_wait)


def _wait(host: Thread, _: Stream, __: int) -> None:
    with host.frame("train.py(40): measure"):
        host.synchronize()
    host.spend(_PYTHON_NS)
