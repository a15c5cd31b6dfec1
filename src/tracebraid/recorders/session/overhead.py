"""Overhead of recording: recorded steps against steady unrecorded ones."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from msgspec import Struct, field

from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.session.schedule import Action, Schedule

_MEMORY_STEPS = 8
_STATM = Path("/proc/self/statm")


class StepTimes(Struct):
    """Durations of the steps of a loop, in ns of a steady clock, by what happened during each.

    Left out are the first steps (`skip_first`, and step 0 always: it sets things up), warm-up steps, and the step
    after a window, which includes the cost of closing the window.

    Args:
        schedule: which steps are recorded.
        untraced_ns: steady steps that were not recorded.
        traced_ns: those that were.
        memory: of the last steps before the first window, at their ends: bytes of the process that are resident, and
            bytes that PyTorch has allocated on its device; None: unknown.
    """

    schedule: Schedule
    untraced_ns: list[int] = field(default_factory=list)
    traced_ns: list[int] = field(default_factory=list)
    memory: deque[tuple[int | None, int | None]] = field(default_factory=lambda: deque(maxlen=_MEMORY_STEPS))
    _early_ns: list[int] = field(default_factory=list)
    _previous: Action = Action.SKIP

    def add(self, step: int, dur_ns: int, recorded: bool) -> None:
        """A step is over; one that was to be recorded and was not is left out."""
        action = self.schedule.action(step)
        if not self.traced_ns and action is not Action.RECORD:
            self.memory.append((_resident_bytes(), _device_bytes()))
        if action is Action.RECORD and recorded:
            self.traced_ns.append(dur_ns)
        elif action is Action.WAIT and step > 0 and self._previous is not Action.RECORD:
            self.untraced_ns.append(dur_ns)
        elif action is Action.SKIP and step > 0:
            self._early_ns.append(dur_ns)
        self._previous = action

    @property
    def before_ns(self) -> list[int]:
        """The steps before the window: those that wait for it, or the later half of those that are skipped."""
        return self.untraced_ns or self._early_ns[len(self._early_ns) // 2 :]

    def before(self) -> dict[str, int | None]:
        """Number, median and quartiles of the steps before the window."""
        return _spread(self.before_ns)

    def forget_traced(self, steps: int) -> None:
        """Leave out the last steps that were recorded: they were discarded."""
        del self.traced_ns[len(self.traced_ns) - steps :]

    def summary(self) -> dict[str, Any]:
        """Medians and quartiles, and the ratio of the medians; null if there is no step of a kind."""
        spread = _spread(self.untraced_ns)
        traced = int(median(self.traced_ns)) if self.traced_ns else None
        untraced = spread["untraced_step_median_ns"]
        return {
            **spread,
            "traced_steps": len(self.traced_ns),
            "traced_step_median_ns": traced,
            "traced_to_untraced": round(traced / untraced, 3) if traced and untraced else None,
        }


def _spread(steps_ns: list[int]) -> dict[str, int | None]:
    """Number, median and quartiles of unrecorded steps; null if there is none."""
    first = middle = third = None
    if steps_ns:
        several = steps_ns if len(steps_ns) > 1 else steps_ns * 2
        first, middle, third = map(int, quantiles(several, method="inclusive"))
    return {
        "untraced_steps": len(steps_ns),
        "untraced_step_median_ns": middle,
        "untraced_step_q1_ns": first,
        "untraced_step_q3_ns": third,
    }


def _resident_bytes() -> int | None:
    """The resident memory of the process; None: the system does not say it."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _device_bytes() -> int | None:
    """Return PyTorch's allocated bytes on the current CUDA device; None: no device in use."""
    return int(torch.cuda.memory_allocated()) if torch.cuda.is_initialized() else None
