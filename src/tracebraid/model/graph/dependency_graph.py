"""`DependencyGraph`: the moments of all ranks and what each waited for, in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model import notebook
from tracebraid.model.finding import Finding
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.graph import GRAPH_STEPS

__all__ = ["DependencyGraph", "Edges", "Moments"]

_Ints = NDArray[np.int64]
_Codes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Moments:
    """Starts and ends of activities, in an order in which each comes after all that it waits for.

    Args:
        activity: the activity: row of `DependencyGraph.activities`.
        point: `Point`.
        time_ns: when it was, on aligned clocks.
        residual_ns: by how much it is later than all that it waits for; of one that waits for nothing, than the
            earliest moment of the graph; not negative.
        residual: why that is (`Residual`).
    """

    activity: _Ints
    point: _Codes
    time_ns: _Ints
    residual_ns: _Ints
    residual: _Codes

    def __len__(self) -> int:
        return len(self.activity)


@dataclass(frozen=True, eq=False)
class Edges:
    """What each moment waits for: the edges of moment `i` are those from `first[i]` up to `first[i + 1]`.

    Args:
        first: one entry more than there are moments.
        before: the moment that is waited for; always a lower one.
        work_ns: how much later the moment is at least; not negative.
        kind: `EdgeKind`.
        activity: the activity that the work belongs to: row of `DependencyGraph.activities`.
    """

    first: _Ints
    before: NDArray[np.int32]
    work_ns: _Ints
    kind: _Codes
    activity: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.before)


@dataclass(frozen=True, eq=False, repr=False)
class DependencyGraph:
    """What of a job waited for what.

    The time of a moment is the latest of its edges, the time of the moment before plus the edge's work, plus its
    residual. So the measured times follow from work, latencies and residuals alone.

    Args:
        activities: `ACTIVITIES`.
        moments: in an order in which nothing waits for a later one.
        edges: what each waits for.
        moment_of: the moment of each activity's start and end: two columns.
        steps: `GRAPH_STEPS`.
        latencies: `LATENCIES`.
        ranks: the ranks, linked with each other.
        findings: what was noticed while it was built.
        is_whole: whether it has all that the traces have; else it has some steps.
    """

    activities: pl.DataFrame
    moments: Moments
    edges: Edges
    moment_of: NDArray[np.int32]
    steps: pl.DataFrame
    latencies: pl.DataFrame
    ranks: LinkedRanks
    findings: tuple[Finding, ...] = ()
    is_whole: bool = True

    def __repr__(self) -> str:
        """What it is, in brief."""
        steps = self.steps.get_column("step").n_unique()
        return (
            f"DependencyGraph(ranks={self.ranks.ranks.height}, steps={steps}, activities={self.activities.height}, "
            f"moments={len(self.moments)}, edges={len(self.edges)}, findings={len(self.findings)})"
        )

    def _repr_html_(self) -> str:
        """What it is, for a notebook; computes nothing."""
        facts = {
            "ranks": self.ranks.ranks.height,
            "activities": self.activities.height,
            "moments": len(self.moments),
            "edges": len(self.edges),
            "findings": len(self.findings),
            "whole": self.is_whole,
        }
        steps = notebook.frame_html(
            "Steps", self.steps, GRAPH_STEPS, "step rank start_moment host_end_moment"
        )
        return notebook.shown("Dependency graph", notebook.facts_html(facts), steps)

    @property
    def after(self) -> NDArray[np.int32]:
        """The moment that waits, of each edge."""
        return np.repeat(np.arange(len(self.moments), dtype=np.int32), np.diff(self.edges.first))
