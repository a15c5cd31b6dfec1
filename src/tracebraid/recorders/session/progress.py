"""Progress of a capture in the followed loop: steps, position in the schedule, recorded windows."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tracebraid.recorders.session.overhead import StepTimes
from tracebraid.recorders.session.schedule import Action, Schedule

_STEPS_AFTER = 8
"""Steps after the last window that are timed, to compare recorded steps with; later ones are only counted."""


class Counted(Struct, frozen=True):
    """Event that ends a step.

    Args:
        by: `step()`, `optimizer` or `module`.
        name: the class of that optimizer or module; "" if the program calls `step()` itself.
    """

    by: str = "step()"
    name: str = ""


class Progress:
    """The steps of one loop, counted from 0, and the windows recorded of them.

    The schedule waits where a window cannot open: a step's position in it is then less than its number.

    Args:
        schedule: which steps are recorded.
        counted: what ends its steps.
        first_step: the number of the step that begins now.
    """

    def __init__(self, schedule: Schedule, counted: Counted, first_step: int) -> None:
        self.counted = counted
        self.steps_seen = first_step
        self.times = StepTimes(schedule)
        self.windows: list[dict[str, Any]] = []
        self._schedule = schedule
        self._delay = 0
        self._is_disturbed = False

    @property
    def action(self) -> Action:
        """Phase of the current step."""
        return self._schedule.action(self._position)

    @property
    def window(self) -> int:
        """The number of the window that this step belongs to."""
        return self._schedule.window(self._position)

    @property
    def opens_window(self) -> bool:
        """Return whether this step is the first one of a window, with its warm-up."""
        return self._position == self._schedule.opening(self._position)

    @property
    def closes_window(self) -> bool:
        """Return whether this step is the last one of a window."""
        return (
            self.action is Action.RECORD
            and self._position + 1 == self._schedule.opening(self._position) + self._schedule.traced
        )

    @property
    def first_recorded(self) -> int:
        """The number of the first step of the first window."""
        return self._schedule.first_recorded + self._delay

    @property
    def is_postponed(self) -> bool:
        """Return whether a window opened later than the schedule has it, or has not opened for that reason."""
        return self._delay > 0

    @property
    def is_complete(self) -> bool:
        """Return whether this step is after the last window."""
        return self._position >= self._schedule.steps

    @property
    def is_settled(self) -> bool:
        """Return whether this step is only counted: nothing opens, closes or is timed any more."""
        return self._position >= self._schedule.steps + _STEPS_AFTER

    @property
    def has_files(self) -> bool:
        """Return whether a window was written."""
        return any(window["files"] for window in self.windows)

    def postpone(self, recorded: int = 0) -> None:
        """Have the window of this step open with the next step, at the earliest."""
        self.times.forget_traced(recorded)
        self._delay = self.steps_seen + 1 - self._schedule.opening(self._position)
        self._is_disturbed = True

    def end_step(self, dur_ns: int, recorded: bool) -> None:
        """This step is over, and the next one begins."""
        if not self._is_disturbed:
            self.times.add(self._position, dur_ns, recorded)
        self._is_disturbed = False
        self.steps_seen += 1

    @property
    def _position(self) -> int:
        return self.steps_seen - self._delay
