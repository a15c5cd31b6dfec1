"""What recording costs: the steps that were recorded against the steady ones that were not."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tracebraid.recorders.session.schedule import Action, Schedule

__all__ = ["StepTimes"]


@dataclass
class StepTimes:
    """Durations of the steps of a loop, in ns of a steady clock, by what happened during each.

    Left out are the first steps (`skip_first`, and step 0 always: it sets things up), warm-up steps, and the step
    after a window, which includes the cost of closing the window.
    """

    schedule: Schedule
    untraced_ns: list[int] = field(default_factory=list)
    traced_ns: list[int] = field(default_factory=list)
    _previous: Action = Action.SKIP

    def add(self, step: int, dur_ns: int, recorded: bool) -> None:
        """A step is over; one that was to be recorded and was not is left out."""
        action = self.schedule.action(step)
        if action is Action.RECORD and recorded:
            self.traced_ns.append(dur_ns)
        elif action is Action.WAIT and step > 0 and self._previous is not Action.RECORD:
            self.untraced_ns.append(dur_ns)
        self._previous = action

    def forget_traced(self, steps: int) -> None:
        """Leave out the last steps that were recorded: they were discarded."""
        del self.traced_ns[len(self.traced_ns) - steps :]

    def summary(self) -> dict[str, Any]:
        """Medians and their ratio; null where there is no step of a kind."""
        traced = int(median(self.traced_ns)) if self.traced_ns else None
        untraced = int(median(self.untraced_ns)) if self.untraced_ns else None
        return {
            "untraced_steps": len(self.untraced_ns),
            "untraced_step_median_ns": untraced,
            "traced_steps": len(self.traced_ns),
            "traced_step_median_ns": traced,
            "traced_to_untraced": round(traced / untraced, 3) if traced and untraced else None,
        }
