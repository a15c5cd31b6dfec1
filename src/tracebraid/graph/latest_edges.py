"""Find the edge that each moment waited for the longest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.critical_path.step_bounds import (
    ActivityColumns,
    StepBounds,
    activity_columns,
    moment_ranks,
    segments,
    step_bounds,
    way_back,
)
from tracebraid.graph.edge_order import Order, Rows, edges_in_order
from tracebraid.model.answers.graph import ACCOUNTING, PATH_SEGMENTS, START_UP, SegmentKind, StepCause
from tracebraid.model.category import Category
from tracebraid.model.device_peaks import WAIT_NAMES, host_op_communicates
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import (
    ActivityKind,
    DependencyGraph,
    EdgeList,
    Edges,
    Moments,
    Residual,
)
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.rows import at_rows
from tracebraid.model.schema.links import ACTIVITIES
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]


def ready_times(edges: Edges, times_ns: _Ints) -> _Ints:
    """Ready time of each edge: the time of the moment before plus the work."""
    times: _Ints = times_ns[edges.before] + edges.work_ns
    return times


def latest_edges(edges: Edges, times_ns: _Ints) -> _Ints:
    """The edge that each moment waited for the longest; the first of equals, -1 for moments without edges."""
    found: _Ints = _latest(edges.first, ready_times(edges, times_ns))
    return found


@native_loop
def _latest(first: _Ints, ready_ns: _Ints) -> _Ints:
    found = np.full(len(first) - 1, -1, dtype=np.int64)
    for moment in range(len(found)):
        for edge in range(first[moment], first[moment + 1]):
            if found[moment] < 0 or ready_ns[edge] > ready_ns[found[moment]]:
                found[moment] = edge
    return found


MOST_RANKS = 64
"""Maximum ranks with accounted steps."""

_LATENCIES = [
    kind.value
    for kind in (
        *(SegmentKind.LAUNCH_LATENCY, SegmentKind.STREAM_GAP, SegmentKind.EVENT_WAIT),
        *(SegmentKind.SYNC, SegmentKind.QUEUE, SegmentKind.HANDOVER),
    )
]
_BLOCKED = [
    residual.name.lower()
    for residual in (Residual.LAUNCH, Residual.STREAM, Residual.EVENT_WAIT, Residual.BEFORE)
]
_FIRST_USE = (
    r"^(cuda|hip)(Free|Malloc|GetDevice\w*|DeviceGet\w*|SetDevice|StreamCreate\w*|LaunchKernel\w*|FuncGet\w*"
    r"|FuncSet\w*|ModuleLoad\w*)$|^(cu|hip)(Init|ModuleLoad\w*|LibraryLoad\w*|DevicePrimaryCtxRetain)$"
)
"""Calls that create the device's context or load kernels when they are the first of their kind."""
_FIRST_USE_NS = 50 * NS_PER_MS
"""Later on such a call takes less than a hundredth of that, unless it waits for the device."""


_SILENT = 0.4
"""From this share of a path on threads that show nothing, it says little of who waits for whom."""
_BUSY = 0.75
"""A device that works for so much of the time is what bounds it."""


class StepAccounts(Struct, frozen=True, eq=False):
    """The critical path of a run of steps, and the time of the steps by cause.

    Args:
        path: the path as a whole, cut where steps end: `PATH_SEGMENTS`.
        table: `ACCOUNTING`.
        by_device: whether what a device does stands before what its host does at the same time.
    """

    path: pl.DataFrame
    table: pl.DataFrame
    by_device: bool = False


def step_accounts(graph: DependencyGraph, steps: Collection[str]) -> StepAccounts:
    """Compute the critical path of consecutive steps, cut where steps end, and the time of the steps by cause.

    A step lasts from the end of the step before to its own: where the device is behind the host, that is its latest end
    on any rank's host or device. So steps do not overlap, and what the host does between two of them is in one. The
    path of the job goes over all ranks, that of a rank stays on the rank.

    Where 40 % or more of the path lies on threads that show nothing, and devices work for 75 % or more of it, nobody
    knows who waits for whom: then the device's work counts wherever there is some.
    """
    columns, rank_of = activity_columns(graph), moment_ranks(graph)
    of_job = _run_segments(graph, step_bounds(graph), steps, columns, rank_of, None)
    cover = _device_cover(graph) if _is_silent(of_job) else pl.DataFrame()
    by_device = not cover.is_empty() and _share_covered(of_job, cover) >= _BUSY
    has_device = graph.activities.filter(pl.col("stream").is_not_null()).get_column("rank")
    with_device = has_device.unique().drop_nulls()

    def accounts_of(path: pl.DataFrame, rank: int | None) -> pl.DataFrame:
        shown = _covered(graph, columns, path, cover) if by_device else path
        return _accounting(shown, with_device, rank)

    accounts = [accounts_of(of_job, None)]
    ranks = graph.steps.get_column("rank").drop_nulls().unique().sort().to_list()
    for rank in ranks[:MOST_RANKS]:
        if len(ranks) == 1:
            accounts.append(accounts[0].with_columns(pl.lit(rank, dtype=pl.Int64).alias("of_rank")))
            continue
        path = _run_segments(graph, step_bounds(graph, rank), steps, columns, rank_of, rank)
        accounts.append(accounts_of(path, rank))
    return StepAccounts(of_job, pl.concat(accounts), by_device)


_ON_DEVICE = [
    kind.value
    for kind in (SegmentKind.KERNEL, SegmentKind.COPY, SegmentKind.TRANSFER, SegmentKind.MEMBER_WAIT)
]


def _is_silent(path: pl.DataFrame) -> bool:
    """Whether much of a path lies on threads outside of all events, or waits for what is not recorded."""
    silent = as_text("kind").is_in([SegmentKind.THREAD.value, SegmentKind.RESIDUAL.value])
    total = int(path.get_column("duration_ns").sum())
    return bool(total and path.filter(silent).get_column("duration_ns").sum() >= _SILENT * total)


def _device_cover(graph: DependencyGraph) -> pl.DataFrame:
    """When devices work, by rank and time, without overlap: `rank`, `start_ns`, `end_ns`, `activity`."""
    works = (
        graph.activities.with_row_index("activity")
        .filter(pl.col("stream").is_not_null() & ~as_text("name").is_in(WAIT_NAMES))
        .select("rank", "activity", "start_ns", "end_ns")
        .sort("rank", "start_ns", "end_ns")
    )
    reach = pl.col("end_ns").cum_max().shift(1).over("rank")
    return works.with_columns(pl.max_horizontal("start_ns", reach).alias("start_ns")).filter(
        pl.col("start_ns") < pl.col("end_ns")
    )


def _share_covered(path: pl.DataFrame, cover: pl.DataFrame) -> float:
    """How much of a path's time some device works."""
    pieces = _pieces(path, cover)
    total = int(path.get_column("duration_ns").sum())
    return int(pieces.filter(pl.col("activity").is_not_null()).get_column("duration_ns").sum()) / max(
        total, 1
    )


def _pieces(path: pl.DataFrame, cover: pl.DataFrame) -> pl.DataFrame:
    """Segments cut where a device of their rank begins or ends to work: `row`, times, `activity` (null: it is idle)."""
    rows = path.select(pl.int_range(pl.len()).alias("row"), "rank", "start_ns", "duration_ns")
    found = []
    for (rank,), own in rows.group_by("rank", maintain_order=True):
        there = cover.filter(pl.col("rank") == rank)
        starts, ends = (there.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
        bounds = np.unique(np.r_[starts, ends])
        begin = own.get_column("start_ns").to_numpy()
        until = begin + own.get_column("duration_ns").to_numpy()
        first = np.searchsorted(bounds, begin, side="right")
        count = np.maximum(np.searchsorted(bounds, until, side="left") - first, 0) + 1
        of = np.repeat(np.arange(len(count)), count)
        nth = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
        edges = np.r_[bounds, np.iinfo(np.int64).max]
        start = np.where(nth == 0, begin[of], edges[first[of] + nth - 1])
        end = np.minimum(until[of], edges[first[of] + nth])
        at = np.searchsorted(starts, start, side="right") - 1
        busy = (
            (at >= 0) & (start < ends[np.maximum(at, 0)])
            if len(starts)
            else np.zeros(len(of), dtype=np.bool_)
        )
        activity = at_rows(there.get_column("activity"), np.where(busy, at, -1))
        piece = {"row": own.get_column("row").to_numpy()[of], "start_ns": start, "duration_ns": end - start}
        found.append(pl.DataFrame(piece).with_columns(activity.cast(pl.Int64).alias("activity")))
    return pl.concat(found)


def _covered(
    graph: DependencyGraph, columns: ActivityColumns, path: pl.DataFrame, cover: pl.DataFrame
) -> pl.DataFrame:
    """The path, on which what a device does stands before what its host does at the same time."""
    pieces = _pieces(path, cover).filter(pl.col("duration_ns") > 0)
    own = path[pieces.get_column("row")]
    is_covered = (
        pieces.get_column("activity").is_not_null()
        & ~own.select(as_text("kind").is_in(_ON_DEVICE)).to_series()
    )
    times = own.with_columns(pieces.get_column("start_ns"), pieces.get_column("duration_ns"))
    chosen = pieces.get_column("activity").filter(is_covered)
    kinds = {
        ActivityKind.COPY.value: SegmentKind.COPY.value,
        ActivityKind.COMMUNICATION.value: SegmentKind.TRANSFER.value,
    }
    of_work = graph.activities.select(as_text("kind")).to_series().gather(chosen)
    works = columns.table[chosen].with_columns(
        of_work.replace_strict(kinds, default=SegmentKind.KERNEL.value).alias("kind"),
        *times.filter(is_covered).select("step", "order", "start_ns", "duration_ns", "on_path").get_columns(),
        times.filter(is_covered).get_column("duration_ns").alias("work_ns"),
        pl.lit(0, dtype=pl.Int64).alias("residual_ns"),
        pl.lit(None, dtype=pl.String).alias("residual"),
        chosen.alias("activity"),
    )
    return pl.concat([times.filter(~is_covered), PATH_SEGMENTS.conform(works)])


def _run_segments(
    graph: DependencyGraph,
    every: Sequence[StepBounds],
    steps: Collection[str],
    columns: ActivityColumns,
    rank_of: _Ints,
    rank: int | None,
) -> pl.DataFrame:
    """The path from the end of the last step that counts back to the start of the first."""
    bounds = sorted(
        (bound for bound in every if not steps or bound.step in steps), key=lambda bound: bound.end_ns
    )
    if not bounds:
        return PATH_SEGMENTS.empty()
    first, last = min(bound.start_ns for bound in bounds), bounds[-1]
    way = way_back(graph, replace(last, step=None, start_ns=min(first, last.end_ns)), rank_of, rank)
    return _cut(segments(graph, columns, way, None), bounds)


def _cut(whole: pl.DataFrame, bounds: Sequence[StepBounds]) -> pl.DataFrame:
    """Segments cut at the ends of steps, each with the step in which it lies."""
    edges = np.array([bound.end_ns for bound in bounds], dtype=np.int64)
    start = whole.get_column("start_ns").to_numpy()
    end = start + whole.get_column("duration_ns").to_numpy()
    first = np.minimum(np.searchsorted(edges, start, side="right"), len(edges) - 1)
    last = np.minimum(np.searchsorted(edges, end, side="left"), len(edges) - 1)
    count = np.maximum(last - first, 0) + 1
    row = np.repeat(np.arange(len(count)), count)
    step = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    begin = np.where(step == first[row], start[row], edges[step - 1])
    until = np.where(step == last[row], end[row], edges[step])
    names = pl.Series([bound.step for bound in bounds], dtype=pl.String)
    is_residual = pl.col("residual_ns") > 0
    parts = whole[row].with_columns(
        names.gather(step).alias("step"),
        pl.Series("order", np.arange(len(row))),
        pl.Series("start_ns", begin),
        pl.Series("duration_ns", until - begin),
        pl.when(is_residual).then(0).otherwise(pl.Series(until - begin)).alias("work_ns"),
        pl.when(is_residual).then(pl.Series(until - begin)).otherwise(0).alias("residual_ns"),
    )
    return PATH_SEGMENTS.conform(parts.filter(pl.col("duration_ns") > 0))


RECORDING_START = "recording start (what ran or was launched before it)"
"""Name of the time of a first step in which work from before the recording runs."""


def _accounting(path: pl.DataFrame, with_device: pl.Series, of_rank: int | None) -> pl.DataFrame:
    """The time of steps by cause, from their path.

    Args:
        with_device: the ranks that have a device.
    """
    # What a cause and a name depend on: many segments have it in common.
    path = path.group_by(
        *("step", "rank", "kind", "residual", "host_work", "frames", "annotation", "op", "name", "family"),
        (pl.col("duration_ns") >= _FIRST_USE_NS).alias("is_long"),
        maintain_order=True,
    ).agg(pl.col("duration_ns").sum(), pl.col("start_ns").min())
    kind = as_text("kind")
    of_op = pl.coalesce(as_text("op"), as_text("name"))
    ops = path.select(of_op.alias("name"), pl.lit(Category.CPU_OP.value).alias("category"))
    is_op = (kind == SegmentKind.HOST_OP.value) & pl.col("host_work").is_null() & ~host_op_communicates(ops)
    computes = is_op & ~pl.col("rank").is_in(with_device.implode())
    cause = (
        pl.when((kind == SegmentKind.KERNEL.value) | computes)
        .then(pl.lit(StepCause.COMPUTE.value))
        .when(kind == SegmentKind.COPY.value)
        .then(pl.lit(StepCause.COPY.value))
        .when(kind == SegmentKind.TRANSFER.value)
        .then(pl.lit(StepCause.COMMUNICATION.value))
        .when(kind == SegmentKind.MEMBER_WAIT.value)
        .then(pl.lit(StepCause.RANK_WAIT.value))
        .when(kind.is_in(_LATENCIES))
        .then(pl.lit(StepCause.LAUNCH.value))
        .when((kind == SegmentKind.RESIDUAL.value) & as_text("residual").is_in(_BLOCKED))
        .then(pl.lit(StepCause.BLOCKED.value))
        .when(kind.is_in([SegmentKind.RESIDUAL.value, SegmentKind.OTHER.value]))
        .then(pl.lit(StepCause.UNKNOWN.value))
        .otherwise(pl.lit(StepCause.HOST.value))
    )
    innermost = as_text("frames").str.extract(r"([^>]+)$").str.strip_chars()
    first_step = pl.col("step").eq_missing(pl.col("step").get(pl.col("start_ns").arg_min()))
    is_start_up = (
        (kind == SegmentKind.CALL.value)
        & as_text("name").str.contains(_FIRST_USE)
        & pl.col("is_long")
        & first_step
    )
    name = (
        pl.when(is_start_up)
        .then(pl.lit(START_UP))
        .when((as_text("residual") == Residual.BEFORE.name.lower()) & first_step)
        .then(pl.lit(RECORDING_START))
        .when(cause == StepCause.HOST.value)
        .then(pl.coalesce(innermost, as_text("annotation"), as_text("name")))
        .when(kind == SegmentKind.KERNEL.value)
        .then(pl.coalesce(as_text("family"), as_text("name")))
        .when(kind == SegmentKind.HOST_OP.value)
        .then(of_op)
        .otherwise(as_text("name"))
    )
    found = (
        path.with_columns(
            cause.alias("cause"),
            name.alias("of"),
            as_text("host_work").alias("host_work"),
            pl.col("duration_ns").sum().over("step").alias("span_ns"),
        )
        .group_by("step", "cause", "rank", "host_work", "of")
        .agg(
            pl.col("duration_ns").sum().alias("ns"),
            pl.col("span_ns").first(),
            pl.col("start_ns").min(),
        )
        .rename({"of": "name"})
        .with_columns(
            (pl.col("ns") / pl.max_horizontal("span_ns", 1)).alias("share"),
            pl.lit(of_rank, dtype=pl.Int64).alias("of_rank"),
        )
    )
    first = pl.col("start_ns").min().over("step")
    return ACCOUNTING.conform(
        found.sort(first, -pl.col("ns"), "cause", "rank", "host_work", "name", nulls_last=True)
    )


_Bools = NDArray[np.bool_]


def edge_list(graph: DependencyGraph) -> EdgeList:
    """The edges of a graph, each with the moment that waits."""
    edges = graph.edges
    return EdgeList(
        edges.before.astype(np.int64),
        graph.after.astype(np.int64),
        edges.work_ns,
        edges.kind,
        edges.activity.astype(np.int64),
    )


def without_edges(graph: DependencyGraph, dropped: _Bools) -> DependencyGraph:
    """The graph without some of its edges; its moments keep their order."""
    edges = graph.edges
    first = np.zeros(len(graph.moments) + 1, dtype=np.int64)
    np.cumsum(np.bincount(graph.after[~dropped], minlength=len(graph.moments)), out=first[1:])
    kept = ~dropped
    return replace(
        graph,
        edges=Edges(first, edges.before[kept], edges.work_ns[kept], edges.kind[kept], edges.activity[kept]),
    )


def with_edges(graph: DependencyGraph, added: EdgeList) -> DependencyGraph:
    """Add edges, and reorder the moments: previous moment numbers become invalid."""
    edges = EdgeList.joined([edge_list(graph), added])
    order, rows = edges_in_order(np.arange(len(graph.moments)), edges)
    if rows.backward:
        forward = order.position[edges.before] < order.position[edges.after]
        edge = int(np.flatnonzero(~forward)[0])
        waits, for_this = (_name(graph, int(moment)) for moment in (edges.after[edge], edges.before[edge]))
        raise ArgumentError(
            f"this change is impossible: {waits} would depend on {for_this}, which itself waits for it. "
            "Select less, or events that do not depend on each other"
        )
    return _reordered(graph, rows, order)


def with_activities(graph: DependencyGraph, rows: pl.DataFrame) -> DependencyGraph:
    """Add activities; their moments come last, in pairs, without dependencies."""
    count, before = rows.height, len(graph.moments)
    fresh = before + np.arange(2 * count, dtype=np.int32).reshape(-1, 2)
    times = rows.select("start_ns", "end_ns").to_numpy().reshape(-1).astype(np.int64)
    moments, edges = graph.moments, graph.edges
    activity = graph.activities.height + np.arange(count, dtype=np.int64)
    none = np.zeros(2 * count, dtype=np.int64)
    return replace(
        graph,
        activities=pl.concat([graph.activities, ACTIVITIES.conform(rows, fill_missing=True)]),
        moments=Moments(
            np.r_[moments.activity, np.repeat(activity, 2)],
            np.r_[moments.point, np.tile(np.array([0, 1], dtype=np.uint8), count)],
            np.r_[moments.time_ns, times],
            np.r_[moments.residual_ns, none],
            np.r_[moments.residual, np.full(2 * count, Residual.NONE, dtype=np.uint8)],
        ),
        edges=replace(edges, first=np.r_[edges.first, edges.first[-1] + none]),
        moment_of=np.concatenate([graph.moment_of, fresh]),
    )


def _name(graph: DependencyGraph, moment: int) -> str:
    row = graph.activities.row(int(graph.moments.activity[moment]), named=True)
    rank = "" if row["rank"] is None else f" of rank {row['rank']}"
    return f"{row['kind']} {row['name']}{rank}"


def _reordered(graph: DependencyGraph, rows: Rows, order: Order) -> DependencyGraph:
    position, moments = order.position, graph.moments
    numbers = pl.Series(position, dtype=pl.Int64)
    columns = [
        numbers.gather(graph.steps.get_column(name)).alias(name)
        for name in ("start_moment", "host_end_moment", "device_end_moment")
    ]
    return replace(
        graph,
        moments=Moments(
            moments.activity[order.moments],
            moments.point[order.moments],
            moments.time_ns[order.moments],
            moments.residual_ns[order.moments],
            moments.residual[order.moments],
        ),
        edges=Edges(rows.first, rows.before, rows.work_ns, rows.kind, rows.activity),
        moment_of=position.astype(np.int32)[graph.moment_of],
        steps=graph.steps.with_columns(columns),
    )
