"""Waits of tests end on what happened; their limit is that of a hang, on a machine however busy.

Nothing else in the tests reads a clock or sleeps: `tests/rules/test_clocks.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

HANG_S = 600
"""After this a test gives up; what a test leaves running sleeps for `LONG_S` unless it is ended."""
LONG_S = 3600


def wait_for(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < until_s, "it did not happen"
        time.sleep(0.02)


def let_others_run() -> None:
    """Leave the processor to other threads for a moment; nothing may depend on how long."""
    time.sleep(0.002)


def sleep_until_ended() -> None:
    """Do nothing until this process is ended from outside."""
    time.sleep(LONG_S)


@dataclass
class CountedClock:
    """Stands for `tracebraid.clock`: time goes on by what is paused, and nobody waits."""

    time_s: float = 0.0
    pauses_s: list[float] = field(default_factory=list)
    on_pause: Callable[[], object] = lambda: None

    def now_s(self) -> float:
        return self.time_s

    def pause(self, seconds: float) -> None:
        self.time_s += seconds
        self.pauses_s.append(seconds)
        self.on_pause()
