"""Each step waits for its batch for longer than the device has work."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_LOAD_NS = 30_000_000
SAVING_NS = STEPS * 10_000_000, STEPS * _LOAD_NS


def planted() -> Scene:
    """The device runs dry in each step."""
    return training_loop(_load)


def _load(host: Thread, _: Stream, __: int) -> None:
    host.load_data(_LOAD_NS)
