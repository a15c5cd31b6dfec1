"""`WhatIf`: what changes would bring, and what that answer rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import polars as pl

from tracebraid.model import notebook
from tracebraid.model.answers.graph.what_if import WHAT_IF_CHANGES
from tracebraid.model.finding import Finding
from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.model.quantities import duration, percent

__all__ = ["WhatIf", "WhatIfNote"]


class WhatIfNote(Enum):
    """What the answer rests on, beside the dependencies themselves."""

    INTERFERENCE = "interference"
    """Other kernels run beside communication than did, and are slowed down by as much as the trace shows."""
    SAME_OVERLAP = "same_overlap"
    """The same kernels run beside communication: they stay as fast as they were."""
    NO_OVERLAP = "no_overlap"
    """Kernels newly run beside communication, and are not slowed down: none does in the trace."""
    NO_COMPARISON = "no_comparison"
    """Other kernels run beside communication than did, and stay as fast as they were: the trace has none that run
    often enough with it and without it, and are clearly slower with it."""
    RESIDUALS_STAY = "residuals_stay"
    """What is not explained stays as it was measured."""
    LATENCY_UNKNOWN = "latency_unknown"
    """Of some communication no latency is fitted: all its time is taken to be that of its size."""
    ALONE = "alone"
    """Some communication is not matched with another rank's: its time holds waiting."""
    NO_STEPS = "no_steps"
    """No step is marked: the whole trace is a single one."""
    NO_GAIN = "no_gain"
    """The step does not get shorter: what was changed is not on its critical path."""


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What changes would bring.

    Args:
        steps: `WHAT_IF_STEPS`.
        changes: `WHAT_IF_CHANGES`.
        paths: `WHAT_IF_PATHS`.
        before_ns: mean time of a step of the job.
        after_ns: the same with the changes.
        gain_low_ns: low end of the gain: 10th percentile over steps, with measured or with usual residuals, whichever
            is less.
        gain_high_ns: high end of it: 90th percentile, whichever is more.
        ranks: the ranks that were read.
        replay_error: how well the model reproduces the measured times of this trace.
        interference: how much slower kernels are beside communication, as measured: `INTERFERENCE`.
        notes: what the answer rests on.
        findings: what was noticed.
    """

    steps: pl.DataFrame
    changes: pl.DataFrame
    paths: pl.DataFrame
    before_ns: float
    after_ns: float
    gain_low_ns: float
    gain_high_ns: float
    ranks: tuple[int, ...]
    replay_error: ReplayError
    interference: pl.DataFrame
    notes: tuple[WhatIfNote, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def gain_ns(self) -> float:
        """Mean gain of a step of the job; below 0: it takes longer."""
        return self.before_ns - self.after_ns

    @property
    def gain(self) -> float:
        """The gain as a share of the time before; 0 where that is 0."""
        return self.gain_ns / self.before_ns if self.before_ns else 0.0

    def __repr__(self) -> str:
        """What it is, in brief."""
        return f"WhatIf(before_ns={self.before_ns:.0f}, after_ns={self.after_ns:.0f}, changes={self.changes.height})"

    def _repr_html_(self) -> str:
        """What it is, for a notebook."""
        rows = [
            ("mean step before", duration(self.before_ns)),
            ("after", duration(self.after_ns)),
            ("gain", f"{duration(self.gain_ns)}, {percent(self.gain)}"),
            ("gain, low to high", f"{duration(self.gain_low_ns)} to {duration(self.gain_high_ns)}"),
        ]
        facts = {**dict(rows), "ranks": len(self.ranks), "notes": [note.value for note in self.notes] or None}
        changes = notebook.frame_html("Changes", self.changes, WHAT_IF_CHANGES)
        return notebook.shown("What if", notebook.facts_html(facts), changes)
