"""`CriticalPath`: what the time of each step is made of, end to end, and how far that can be relied on."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.model import notebook
from tracebraid.model.answers.graph.critical_path import PATH_STEPS, PATH_TOTALS, TotalsBy
from tracebraid.model.finding import Finding
from tracebraid.model.graph.replay_error import ReplayError

__all__ = ["CriticalPath"]


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The critical path of each step.

    Args:
        steps: `PATH_STEPS`.
        segments: `PATH_SEGMENTS`; of each step they follow each other without a gap, from its start to its end.
        totals: `PATH_TOTALS`.
        hops: `PATH_HOPS`.
        slack: `SLACK`.
        stability: `PATH_STABILITY`.
        ranks: the ranks that were read.
        rank: the rank within which the paths stay; None: they go over all ranks.
        replay_error: how well the graph's model reproduces the measured times.
        findings: what was noticed.
    """

    steps: pl.DataFrame
    segments: pl.DataFrame
    totals: pl.DataFrame
    hops: pl.DataFrame
    slack: pl.DataFrame
    stability: pl.DataFrame
    ranks: tuple[int, ...]
    rank: int | None
    replay_error: ReplayError
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """What it is, in brief."""
        return f"CriticalPath(steps={self.steps.height}, segments={self.segments.height}, ranks={len(self.ranks)})"

    def _repr_html_(self) -> str:
        """What it is, for a notebook; computes nothing."""
        facts = {
            "steps": self.steps.height,
            "segments": self.segments.height,
            "ranks": len(self.ranks),
            "within rank": self.rank,
            "findings": len(self.findings),
        }
        steps = notebook.frame_html(
            "Steps", self.steps, PATH_STEPS, "step span_ns path_ns residual_ns explained"
        )
        totals = notebook.frame_html(
            "What the paths are made of",
            self.totals.filter(pl.col("by") == TotalsBy.KIND.value),
            PATH_TOTALS,
            "step value segments duration_ns share",
        )
        return notebook.shown("Critical path", notebook.facts_html(facts), steps, totals)
