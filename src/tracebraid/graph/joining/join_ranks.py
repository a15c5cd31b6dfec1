"""The parts of all ranks as one dependency graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.errors import ArgumentError
from tracebraid.graph.joining.collective_edges import Collectives, collective_edges
from tracebraid.graph.joining.communication import with_communication
from tracebraid.graph.joining.graph_steps import graph_steps
from tracebraid.graph.joining.order import order_of
from tracebraid.graph.joining.residuals import residuals
from tracebraid.graph.joining.rows import edge_rows, in_order
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph, Edges, Moments
from tracebraid.model.graph.rank_graph import RankGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.graph import ACTIVITIES, LATENCIES
from tracebraid.model.step import PROFILER_STEP

__all__ = ["join_ranks"]

_Ints = NDArray[np.int64]
_MOST_MOMENTS = 2**31 - 1
"""Moments are numbered in 32 bits."""


def join_ranks(
    parts: Sequence[RankGraph],
    ranks: LinkedRanks,
    annotation: str = PROFILER_STEP,
    steps: Sequence[str] | None = None,
) -> DependencyGraph:
    """Join the parts of all ranks: their clocks aligned, their collectives waiting for all members.

    Args:
        parts: of each rank, each rank once.
        ranks: the ranks, linked with each other.
        annotation: what marks a step.
        steps: names of the steps that the parts were cut to; None: they are whole.

    Raises:
        ArgumentError: there are too many moments for one graph.
    """
    ordered = sorted(parts, key=lambda part: part.rank)
    activities, times_ns = _before_joining(ordered, ranks)
    collectives = collective_edges(activities, times_ns, _with_edges(ordered), ranks)
    activities, times_ns = _with_collectives(activities, times_ns, collectives)
    firsts = np.cumsum([0, *(part.activities.height for part in ordered)])[:-1].tolist()
    rows = edge_rows([*(part.edges for part in ordered), collectives.edges], [*firsts, 0], times_ns)
    kinds = (rows.kind, int(EdgeKind.DEVICE), int(EdgeKind.HOST))
    _drop_waiting(rows.first, rows.before, rows.work_ns, kinds, _waits(collectives, times_ns))
    order = order_of(times_ns, rows.first, rows.before)
    dropped, rows = rows.backward, in_order(rows, order.moments, order.position)
    times_ns = times_ns[order.moments]
    residual_ns, residual = residuals(rows, times_ns)
    moment_of = order.position.reshape(-1, 2)
    moments = Moments(
        (order.moments // 2).astype(np.int64),
        (order.moments % 2).astype(np.uint8),
        times_ns,
        residual_ns,
        residual,
    )
    return DependencyGraph(
        activities,
        moments,
        Edges(rows.first, rows.before, rows.work_ns, rows.kind, rows.activity),
        moment_of,
        graph_steps(activities, moment_of, annotation, steps),
        pl.concat([LATENCIES.empty(), *(part.latencies for part in ordered)]),
        ranks,
        _findings(ordered, ranks, collectives, dropped + rows.backward),
        is_whole=steps is None,
    )


def _before_joining(parts: Sequence[RankGraph], ranks: LinkedRanks) -> tuple[pl.DataFrame, _Ints]:
    """Activities and times of all parts, on aligned clocks; numbers go on from rank to rank."""
    heights = [part.activities.height for part in parts]
    if 2 * sum(heights) > _MOST_MOMENTS:
        raise ArgumentError(
            f"a graph has at most {_MOST_MOMENTS:,} moments, and these traces have {2 * sum(heights):,}: "
            "choose fewer steps or ranks"
        )
    activities = pl.concat([ACTIVITIES.empty(), *(part.activities for part in parts)])
    # Of these columns alone: the others would be copied.
    spans = ranks.aligned(activities.select("rank", "start_ns", "end_ns"), "start_ns", "end_ns")
    activities = activities.with_columns(spans.get_column("start_ns"), spans.get_column("end_ns"))
    rank = np.repeat([part.rank for part in parts], 2 * np.array(heights, dtype=np.int64))
    times = np.concatenate([np.empty(0, dtype=np.int64), *(part.times_ns for part in parts)])
    moments = pl.DataFrame({"rank": rank, "time_ns": times}, schema={"rank": pl.Int64, "time_ns": pl.Int64})
    aligned = ranks.aligned(moments, "time_ns").get_column("time_ns").to_numpy()
    return with_communication(ACTIVITIES.conform(activities), ranks), aligned


def _with_edges(parts: Sequence[RankGraph]) -> NDArray[np.bool_]:
    """Of each activity whether its end waits for anything: others stand for what lies outside of the steps."""
    found = []
    for part in parts:
        waits = np.zeros(2 * part.activities.height, dtype=np.bool_)
        waits[part.edges.after] = True
        found.append(waits[1::2])
    return np.concatenate([np.zeros(0, dtype=np.bool_), *found])


def _with_collectives(
    activities: pl.DataFrame, times_ns: _Ints, collectives: Collectives
) -> tuple[pl.DataFrame, _Ints]:
    """All activities and times, those of collectives last."""
    return (
        pl.concat([activities, collectives.activities]),
        np.concatenate([times_ns, collectives.times_ns]),
    )


def _waits(collectives: Collectives, times_ns: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """The ends of members that wait, until when each waits, and the times of all moments."""
    return 2 * collectives.waiting + 1, collectives.arrival_ns, times_ns


@compiled
def _drop_waiting(
    first: _Ints,
    before: NDArray[np.int32],
    work_ns: _Ints,
    kinds: tuple[NDArray[np.uint8], int, int],
    waits: tuple[_Ints, _Ints, _Ints],
) -> None:
    """Let the time in which a member waited for the last arrival be no work of its own."""
    kind, device, host = kinds
    ends, until_ns, times_ns = waits
    for member, end in enumerate(ends):
        for edge in range(first[end], first[end + 1]):
            own = kind[edge] == device or kind[edge] == host
            if own and times_ns[before[edge]] <= until_ns[member]:
                work_ns[edge] = 0


def _findings(
    parts: Sequence[RankGraph], ranks: LinkedRanks, collectives: Collectives, dropped: int
) -> tuple[Finding, ...]:
    contradicted = [Finding.of(FindingCode.GRAPH_EDGES_CONTRADICTED, count=dropped)] if dropped else []
    of_parts = (finding for part in parts for finding in part.findings)
    return (*ranks.findings, *of_parts, *collectives.findings, *contradicted)
