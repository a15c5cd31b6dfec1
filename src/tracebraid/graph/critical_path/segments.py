"""The segments of a path: what happens in each, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.critical_path.walk import EXCLUDED, Way
from tracebraid.model.answers.graph.critical_path import PATH_SEGMENTS
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.segment_kind import SegmentKind

__all__ = ["ActivityColumns", "activity_columns", "segments"]

_Ints = NDArray[np.int64]
_Codes = NDArray[np.uint8]

_KINDS = tuple(SegmentKind)
_CODE = {kind: code for code, kind in enumerate(_KINDS)}
_KIND_NAMES = pl.Series([kind.value for kind in _KINDS], dtype=pl.Categorical())
_RESIDUAL_NAMES = pl.Series(
    [None if code is Residual.NONE else code.name.lower() for code in sorted(Residual)],
    dtype=pl.Categorical(),
)

_BY_ACTIVITY = {
    ActivityKind.OP: SegmentKind.HOST_OP,
    ActivityKind.ANNOTATION: SegmentKind.ANNOTATION,
    ActivityKind.CALL: SegmentKind.CALL,
    ActivityKind.PYTHON: SegmentKind.PYTHON,
    ActivityKind.THREAD: SegmentKind.THREAD,
    ActivityKind.KERNEL: SegmentKind.KERNEL,
    ActivityKind.COPY: SegmentKind.COPY,
    ActivityKind.COMMUNICATION: SegmentKind.TRANSFER,
    ActivityKind.COLLECTIVE: SegmentKind.TRANSFER,
}
_BY_EDGE = {
    EdgeKind.TRANSFER: SegmentKind.TRANSFER,
    EdgeKind.ARRIVAL: SegmentKind.MEMBER_WAIT,
    EdgeKind.LAUNCH: SegmentKind.LAUNCH_LATENCY,
    EdgeKind.STREAM_ORDER: SegmentKind.STREAM_GAP,
    EdgeKind.STREAM_OVERLAP: SegmentKind.STREAM_GAP,
    EdgeKind.STREAM_END: SegmentKind.STREAM_GAP,
    EdgeKind.EVENT_WAIT: SegmentKind.EVENT_WAIT,
    EdgeKind.SYNC: SegmentKind.SYNC,
    EdgeKind.QUEUE: SegmentKind.QUEUE,
    EdgeKind.THREAD: SegmentKind.HANDOVER,
    EdgeKind.FORWARD_BACKWARD: SegmentKind.HANDOVER,
    EdgeKind.COMMUNICATION_WAIT: SegmentKind.HANDOVER,
}
"""Of the edges whose work is none of an activity's own; of others the activity says what happens."""


@dataclass(frozen=True, eq=False)
class ActivityColumns:
    """What of all activities every path needs.

    Args:
        table: what segments show of an activity: columns of `PATH_SEGMENTS`.
        kind: the code of the segment in which its own work is done.
    """

    table: pl.DataFrame
    kind: _Codes


def activity_columns(graph: DependencyGraph) -> ActivityColumns:
    """What of the activities is shown, once for all paths of a graph."""
    threads = graph.activities.filter(as_text("kind") == ActivityKind.THREAD.value).select(
        "rank", "lane", pl.col("name").alias("thread")
    )
    named = (
        graph.activities.join(
            threads.unique(["rank", "lane"], keep="first"),
            on=["rank", "lane"],
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.when(pl.col("stream").is_null()).then("thread").alias("thread"))
        .select(
            "rank",
            "thread",
            "stream",
            "lane",
            "family",
            "name",
            "op",
            "module",
            "node_id",
            "shapes",
            "event_id",
        )
    )
    codes = {kind.value: _CODE[segment] for kind, segment in _BY_ACTIVITY.items()}
    kind = graph.activities.select(
        as_text("kind").replace_strict(codes, default=_CODE[SegmentKind.OTHER], return_dtype=pl.UInt8)
    )
    return ActivityColumns(named, kind.to_series().to_numpy())


def segments(graph: DependencyGraph, columns: ActivityColumns, way: Way, step: str | None) -> pl.DataFrame:
    """`PATH_SEGMENTS` of a step; neighbours of the same activity and kind are one.

    Args:
        graph: the graph.
        columns: of its activities.
        way: the path.
        step: its name.
    """
    way = _with_waits_apart(graph, way)
    kind, activity = _kinds(graph, columns, way)
    is_residual = kind == _CODE[SegmentKind.RESIDUAL]
    residual = np.where(is_residual, graph.moments.residual[way.moment], Residual.NONE)
    changes = np.ones(len(kind), dtype=np.bool_)
    changes[1:] = np.any(np.diff(np.stack([kind, activity, residual]).astype(np.int64), axis=1), axis=0)
    begun = np.flatnonzero(changes)
    last = np.append(begun[1:], len(kind))[: len(begun)] - 1
    duration = way.end_ns[last] - way.start_ns[begun]
    own = columns.table[activity[begun]]
    found = own.with_columns(
        pl.lit(step, dtype=pl.String).alias("step"),
        pl.Series("order", np.arange(len(begun))),
        _KIND_NAMES.gather(kind[begun]).alias("kind"),
        pl.Series("start_ns", way.start_ns[begun]),
        pl.Series("duration_ns", duration),
        pl.Series("work_ns", np.where(is_residual[begun], 0, duration)),
        pl.Series("residual_ns", np.where(is_residual[begun], duration, 0)),
        _RESIDUAL_NAMES.gather(residual[begun]).alias("residual"),
        pl.Series("activity", activity[begun], dtype=pl.Int64),
        pl.lit(None, dtype=pl.Float64).alias("on_path"),
    )
    return PATH_SEGMENTS.conform(found)


def _kinds(graph: DependencyGraph, columns: ActivityColumns, way: Way) -> tuple[_Codes, _Ints]:
    """The kind of each stretch, and whose it is."""
    edge = np.maximum(way.edge, 0)
    if not len(graph.edges):
        activity = graph.moments.activity[way.moment]
        return np.full(len(edge), _CODE[SegmentKind.RESIDUAL], dtype=np.uint8), activity
    is_wait = way.is_gap & (way.edge >= 0) & (way.end_ns <= _ready(graph, way.moment))
    before = graph.moments.activity[graph.edges.before[edge]]
    activity = np.where(way.is_gap, graph.moments.activity[way.moment], graph.edges.activity[edge])
    activity = np.where(is_wait, before, activity).astype(np.int64)
    by_edge = np.full(len(EdgeKind), len(_KINDS), dtype=np.uint8)
    for edge_kind, segment in _BY_EDGE.items():
        by_edge[edge_kind] = _CODE[segment]
    kind = by_edge[graph.edges.kind[edge]]
    kind = np.where(kind == len(_KINDS), columns.kind[activity], kind)
    gap = np.where(is_wait, _CODE[SegmentKind.MEMBER_WAIT], _CODE[SegmentKind.RESIDUAL])
    return np.where(way.is_gap, gap, kind).astype(np.uint8), activity


def _with_waits_apart(graph: DependencyGraph, way: Way) -> Way:
    """The path with each gap cut where the moment's latest edge of all lies: before it the moment waited for a rank
    that the path must not go to, behind it nothing explains the gap."""
    until = np.clip(_ready(graph, way.moment), way.start_ns, way.end_ns)
    cut = way.is_gap & (way.edge >= 0) & (until > way.start_ns) & (until < way.end_ns)
    if not cut.any():
        return way
    rows = np.repeat(np.arange(len(cut)), 1 + cut)
    is_second = np.zeros(len(rows), dtype=np.bool_)
    is_second[1:] = rows[1:] == rows[:-1]
    is_first = np.zeros(len(rows), dtype=np.bool_)
    is_first[:-1] = is_second[1:]
    return Way(
        way.moment[rows],
        way.edge[rows],
        way.is_gap[rows],
        np.where(is_second, until[rows], way.start_ns[rows]),
        np.where(is_first, until[rows], way.end_ns[rows]),
    )


def _ready(graph: DependencyGraph, moments: _Ints) -> _Ints:
    """When the latest of all edges of each moment lets it be; of a moment without edges `EXCLUDED`."""
    first = graph.edges.first
    waits = first[moments + 1] > first[moments]
    ready = graph.moments.time_ns[moments] - graph.moments.residual_ns[moments]
    return np.where(waits, ready, EXCLUDED)
