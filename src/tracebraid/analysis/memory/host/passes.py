"""When did each backward pass run, and each optimizer step?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.memory.host.host_context import HostContext, host_context
from tracebraid.analysis.memory.host.phase_codes import phase_code
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import TrainingPhase
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["NEVER", "Passes", "passes"]

_Ints = NDArray[np.int64]

NEVER = np.iinfo(np.int64).max
"""A moment after all others."""


@dataclass(frozen=True)
class Passes:
    """The backward passes in the order of their starts, and the starts of forward ops that autograd follows.

    Args:
        begin_ns: start of each pass's first op.
        end_ns: end of its last op.
        forward_ns: start of the first forward op since the pass before; `begin_ns` where none is known.
        step_starts_ns: starts of all steps.
        step_ends_ns: their ends.
    """

    begin_ns: _Ints
    end_ns: _Ints
    forward_ns: _Ints
    step_starts_ns: _Ints
    step_ends_ns: _Ints

    def after(self, moments: _Ints) -> _Ints:
        """Number of the first pass that begins after each moment; the number of passes where none does."""
        found: _Ints = np.searchsorted(self.begin_ns, moments, side="right")
        return found

    def holding(self, moments: _Ints) -> _Ints:
        """Number of the last pass that begins at or before each moment; -1 where none does."""
        return self.after(moments) - 1

    def coming(self, moments: _Ints) -> _Ints:
        """Number of the first pass that begins after each moment, in the same step where it lies in a step.

        The number of passes where there is none.
        """
        number = self.after(moments)
        found: _Ints = np.where(
            self.at(self.begin_ns, number) < self.step_end(moments), number, len(self.begin_ns)
        )
        return found

    def of_next_step(self, moments: _Ints) -> _Ints:
        """Number of the first pass after the step of the pass that is `coming`; the one after that without steps."""
        coming = self.coming(moments)
        end = self.step_end(self.at(self.begin_ns, coming))
        later: _Ints = np.searchsorted(self.begin_ns, end, side="left")
        return np.minimum(np.where(end < NEVER, later, coming + 1), len(self.begin_ns))

    def step_end(self, moments: _Ints) -> _Ints:
        """End of the step in which each moment lies; `NEVER` where it lies in none."""
        step = np.searchsorted(self.step_starts_ns, moments, side="right") - 1
        end = np.r_[self.step_ends_ns, NEVER][step]
        found: _Ints = np.where((step >= 0) & (moments < end), end, NEVER)
        return found

    def phases(self, codes: _Ints, moments: _Ints) -> _Ints:
        """Phases of what starts at some moments: what precedes a pass's forward, or follows the pass, is no forward.

        In a step without a pass, and in a trace without any, all that could be forward is.

        Args:
            codes: phases by names, as in `HostContext.phase`.
            moments: when.
        """
        if not len(self.begin_ns):
            return codes
        coming = self.coming(moments)
        before = (coming < len(self.begin_ns)) & (moments < self.at(self.forward_ns, coming))
        last = self.holding(moments)
        step = np.searchsorted(self.step_starts_ns, moments, side="right") - 1
        step_start = np.where(self.step_end(moments) < NEVER, np.r_[self.step_starts_ns, 0][step], -NEVER)
        follows = (coming == len(self.begin_ns)) & (last >= 0) & (self.at(self.begin_ns, last) >= step_start)
        outside = (codes == phase_code(TrainingPhase.FORWARD)) & (before | follows)
        found: _Ints = np.where(outside, phase_code(TrainingPhase.OTHER), codes)
        return found

    def at(self, of_pass: _Ints, numbers: _Ints) -> _Ints:
        """A moment of some passes; `NEVER` for numbers that no pass has."""
        found: _Ints = np.r_[of_pass, NEVER][
            np.where(numbers < 0, len(of_pass), np.minimum(numbers, len(of_pass)))
        ]
        return found


def passes(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> Passes:
    """The backward passes of a rank, kept with the linked trace.

    A pass is a run of autograd's ops, on any thread: a forward op that autograd follows ends it, and so does the
    start of a step. Ops of the forward that run again inside of backward (checkpoints) end none.
    """
    return linked.derived(_passes, annotation)


def _passes(linked: LinkedTrace, annotation: str) -> Passes:
    context = host_context(linked)
    windows = step_windows(linked, annotation)
    starts = np.sort(windows.get_column("start_ns").to_numpy())
    rows = np.flatnonzero(
        (context.phase == phase_code(TrainingPhase.BACKWARD))
        & (context.phase_row == np.arange(len(context.phase)))
    )
    rows = rows[np.argsort(context.start_ns[rows], kind="stable")]
    forward = _forward_starts(linked, context)
    cuts = np.sort(np.r_[starts, forward])
    run = np.searchsorted(cuts, context.start_ns[rows], side="right")
    first = np.flatnonzero(np.r_[True, np.diff(run) != 0]) if len(rows) else rows
    begin = context.start_ns[rows][first]
    end = np.maximum.reduceat(context.end_ns[rows], first) if len(rows) else begin
    before = np.r_[np.iinfo(np.int64).min, begin[:-1]] if len(begin) else begin
    next_forward = np.r_[forward, NEVER][np.searchsorted(forward, before, side="right")]
    ends = windows.sort("start_ns").get_column("end_ns").to_numpy()
    return Passes(begin, end, np.minimum(next_forward, begin), starts, ends)


def _forward_starts(linked: LinkedTrace, context: HostContext) -> _Ints:
    """Starts of the forward ops whose backward is in the trace, those inside of backward left out; rising."""
    rows = context.rows(linked.forward_backward.get_column("forward_event").unique().to_numpy())
    rows = rows[rows >= 0]
    starts: _Ints = np.sort(context.start_ns[rows[context.phase[rows] != phase_code(TrainingPhase.BACKWARD)]])
    return starts
