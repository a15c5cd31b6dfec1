"""`RankGraph`: the part of one rank in a dependency graph, before the ranks are joined."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.compact import compact
from tracebraid.model.finding import Finding
from tracebraid.model.schema.graph import LATENCIES

__all__ = ["EdgeList", "RankGraph", "moment"]

_Ints = NDArray[np.int64]


def moment(activity: _Ints, point: int | _Ints) -> _Ints:
    """The number of a moment before moments are ordered: an activity has two, its start and its end."""
    return 2 * activity + point


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges in any order; each array has one entry per edge.

    Args:
        before: the moment that is waited for.
        after: the moment that waits.
        work_ns: how much later it is at least: work, or a latency that is usual; not negative.
        kind: `EdgeKind`.
        activity: the activity that the work belongs to.
    """

    before: _Ints
    after: _Ints
    work_ns: _Ints
    kind: NDArray[np.uint8]
    activity: _Ints

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, rows: NDArray[np.bool_] | _Ints | slice) -> EdgeList:
        """Some of the edges."""
        return EdgeList(*(getattr(self, entry.name)[rows] for entry in fields(self)))

    @staticmethod
    def of(before: _Ints, after: _Ints, kind: int, activity: _Ints, work_ns: _Ints | None = None) -> EdgeList:
        """Edges of one kind."""
        work = np.zeros(len(before), dtype=np.int64) if work_ns is None else work_ns
        return EdgeList(before, after, work, np.full(len(before), kind, dtype=np.uint8), activity)

    @staticmethod
    def joined(parts: list[EdgeList]) -> EdgeList:
        """All edges of several lists, one behind the other."""
        return EdgeList(
            *(np.concatenate([getattr(part, entry.name) for part in parts]) for entry in fields(EdgeList))
        )

    def packed(self) -> EdgeList:
        """The same edges, with numbers of 32 bits instead of 64."""
        before, after, activity = (
            cast(_Ints, numbers.astype(np.int32)) for numbers in (self.before, self.after, self.activity)
        )
        return EdgeList(before, after, self.work_ns, self.kind, activity)


@dataclass(frozen=True, eq=False)
class RankGraph:
    """One rank's activities, and the edges between their moments; holds nothing of the linked trace.

    Args:
        rank: the rank.
        activities: `ACTIVITIES`, on the rank's own clock.
        times_ns: the time of each moment (see `moment`), on the rank's own clock, so that every edge goes forward
            by at least its work.
        edges: in any order.
        latencies: `LATENCIES`.
        findings: what was noticed, such as evidence that time contradicts.
    """

    rank: int
    activities: pl.DataFrame
    times_ns: _Ints
    edges: EdgeList
    latencies: pl.DataFrame = field(default_factory=LATENCIES.empty)
    findings: tuple[Finding, ...] = ()

    def packed(self) -> RankGraph:
        """The same in memory of its own, and less of it."""
        return replace(self, activities=compact(self.activities), edges=self.edges.packed())
