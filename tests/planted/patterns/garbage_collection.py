"""Each step collects garbage, for longer than the device has work."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_COLLECT_NS = 30_000_000
SAVING_NS = STEPS * 10_000_000, STEPS * _COLLECT_NS


def planted() -> Scene:
    """The device runs dry in each step."""
    return training_loop(_collect)


def _collect(host: Thread, _: Stream, __: int) -> None:
    with host.frame("train.py(30): tidy"), host.frame("<built-in function collect>", _COLLECT_NS):
        pass
