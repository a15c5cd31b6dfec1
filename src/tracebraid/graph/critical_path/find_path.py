"""The critical path of each step of a graph, with all that is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.critical_path.step_bounds import (
    StepBounds,
    activity_columns,
    allowed_edges,
    moment_ranks,
    segments,
    step_bounds,
    way_back,
)
from tracebraid.graph.latest_edges import ready_times
from tracebraid.model.answers.graph import (
    PATH_HOPS,
    PATH_SEGMENTS,
    PATH_STABILITY,
    PATH_STEPS,
    PATH_TOTALS,
    SLACK,
    WAITING_KINDS,
    SegmentKind,
    TotalsBy,
)
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import (
    ActivityKind,
    CriticalPath,
    DependencyGraph,
    EdgeKind,
    ReplayError,
)
from tracebraid.model.step import some_steps
from tracebraid.native.library import native_library
from tracebraid.native.loops import native_loop

_WAITING = [kind.value for kind in WAITING_KINDS]


def path_hops(segments: pl.DataFrame) -> pl.DataFrame:
    """`PATH_HOPS`; segments of no rank lie between, they are no hop by themselves."""
    before = pl.col("rank", "name").shift(1).over("step").name.prefix("from_")
    rows = segments.filter(pl.col("rank").is_not_null()).with_columns(before)
    changed = rows.filter(pl.col("from_rank").is_not_null() & (pl.col("from_rank") != pl.col("rank")))
    return PATH_HOPS.conform(changed.rename({"rank": "to_rank", "name": "to_name", "start_ns": "ts_ns"}))


def path_steps(bounds: pl.DataFrame, segments: pl.DataFrame, hops: pl.DataFrame) -> pl.DataFrame:
    """`PATH_STEPS`."""
    waits = as_text("kind").is_in(_WAITING) & (pl.col("residual_ns") == 0)
    of_steps = segments.group_by("step").agg(
        pl.col("work_ns").sum().alias("path_ns"),
        pl.col("residual_ns").sum(),
        pl.col("duration_ns").filter(waits).sum().alias("waiting_ns"),
        pl.len().alias("segments"),
        pl.col("rank").drop_nulls().unique().sort().alias("ranks"),
    )
    counted = hops.group_by("step").agg(pl.len().alias("hops"))
    rows = bounds
    for part in (of_steps, counted):
        rows = rows.join(part, on="step", how="left", nulls_equal=True, maintain_order="left")
    counts = pl.col("path_ns", "residual_ns", "waiting_ns", "segments", "hops").fill_null(0)
    share = pl.when(pl.col("span_ns") > 0).then(pl.col("path_ns") / pl.col("span_ns")).otherwise(1.0)
    return PATH_STEPS.conform(
        rows.with_columns(
            counts, pl.col("ranks").fill_null(pl.lit([], dtype=pl.List(pl.Int64)))
        ).with_columns(share.alias("explained"))
    )


def path_totals(segments: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """`PATH_TOTALS`: of each step by each `TotalsBy`, the longest first."""
    number = steps.select("step", "span_ns").with_row_index("number")
    parts = [_by(segments, by) for by in TotalsBy]
    rows = pl.concat([PATH_TOTALS.empty().select(*_OF_TOTALS).cast({"by": pl.String}), *parts])
    rows = rows.join(number, on="step", how="left", nulls_equal=True, maintain_order="left")
    ordinal = pl.col("by").replace_strict(
        {by.value: n for n, by in enumerate(TotalsBy)}, return_dtype=pl.Int64
    )
    found = rows.with_columns(
        pl.when(pl.col("span_ns") > 0)
        .then(pl.col("duration_ns") / pl.col("span_ns"))
        .otherwise(0.0)
        .alias("share"),
        pl.when(pl.col("by") == TotalsBy.KIND.value).then(pl.col("value").is_in(_WAITING)).alias("waits"),
    ).sort("number", ordinal, -pl.col("duration_ns"), "value", nulls_last=True, maintain_order=True)
    return PATH_TOTALS.conform(found)


_OF_TOTALS = ("step", "by", "value", "segments", "duration_ns")


def _by(segments: pl.DataFrame, by: TotalsBy) -> pl.DataFrame:
    """The totals by a column; what is a residual counts as no name, op, module or family."""
    is_residual = as_text("kind") == SegmentKind.RESIDUAL.value
    rows = segments
    if by is TotalsBy.RESIDUAL:
        rows = segments.filter(is_residual)
    elif by not in (TotalsBy.KIND, TotalsBy.RANK):
        rows = segments.filter(~is_residual)
    return (
        rows.with_columns(pl.col(by.value).cast(pl.String).alias("value"))
        .group_by("step", "value", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("segments"), pl.col("duration_ns").sum())
        .with_columns(pl.lit(by.value).alias("by"))
        .select(*_OF_TOTALS)
    )


_Ints = NDArray[np.int64]

OWN_WORK = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""The edges whose work is the duration of their activity; that of others is a latency before it."""
_UNLIMITED = np.iinfo(np.int64).max


def slack(graph: DependencyGraph, edges_slack: _Ints) -> pl.DataFrame:
    """`SLACK`: of each activity the least slack of its own edges."""
    own = np.flatnonzero(np.isin(graph.edges.kind, OWN_WORK))
    found = np.full(graph.activities.height, _UNLIMITED, dtype=np.int64)
    np.minimum.at(found, graph.edges.activity[own], edges_slack[own])
    rows = graph.activities.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        pl.Series("work_ns", own_work(graph)),
        pl.Series("slack_ns", found).replace(_UNLIMITED, None),
    ).with_row_index("activity")
    return SLACK.conform(rows)


def own_work(graph: DependencyGraph) -> _Ints:
    """The work of each activity's own edges, in ns."""
    own = np.isin(graph.edges.kind, OWN_WORK)
    work = np.zeros(graph.activities.height, dtype=np.int64)
    np.add.at(work, graph.edges.activity[own], graph.edges.work_ns[own])
    return work


def edge_slack(graph: DependencyGraph, bounds: Sequence[StepBounds]) -> _Ints:
    """Slack of each edge: work that it can gain without delaying any step or the job.

    The latest time of a moment is the earliest of those of what waits for it, less their residuals and the work
    between; of the ends of a step it is the end of the step, of all others the last moment of the job at most. The
    slack of an edge is what is left between it and the latest time of its moment: the total float of project
    planning (Kelley and Walker, Critical-Path Planning and Scheduling, 1959).
    """
    moments, edges = graph.moments, graph.edges
    latest_ns = np.full(len(moments), moments.time_ns.max(initial=0), dtype=np.int64)
    for step in bounds:
        latest_ns[step.ends] = np.minimum(latest_ns[step.ends], step.end_ns)
    _pass_back(edges.first, edges.before, edges.work_ns, moments.residual_ns, latest_ns)
    after = graph.after
    ready_ns = ready_times(edges, moments.time_ns)
    left: _Ints = latest_ns[after] - moments.residual_ns[after] - ready_ns
    return left


@native_loop
def _pass_back(
    first: _Ints, before: NDArray[np.int32], work_ns: _Ints, residual_ns: _Ints, latest_ns: _Ints
) -> None:
    """Lower the latest time of each moment to what those that wait for it allow."""
    for moment in range(len(residual_ns) - 1, -1, -1):
        allowed = latest_ns[moment] - residual_ns[moment]
        for edge in range(first[moment], first[moment + 1]):
            latest = allowed - work_ns[edge]
            if latest < latest_ns[before[edge]]:
                latest_ns[before[edge]] = latest


_SAME = ["rank", "kind", "name", "op"]
_FIXED = (ActivityKind.THREAD.value, ActivityKind.COLLECTIVE.value)
"""A thread is there once for all steps, a collective has no work of its own."""


class Samples(Struct, frozen=True, eq=False):
    """Durations that activities may have.

    Args:
        first: where the durations of each activity's group begin in `work_ns`.
        count: how many there are; below 2: nothing to draw from.
        work_ns: the own work of the members of all groups.
        own_ns: the own work of each activity.
    """

    first: _Ints
    count: _Ints
    work_ns: _Ints
    own_ns: _Ints


def samples(graph: DependencyGraph) -> Samples:
    """Durations from which each activity's duration is drawn.

    That are the activities of the same rank, kind, name and op at the same position among these in every step, its
    own step among them. Where there is one step, or none, it is all activities of the same rank, kind, name and op.
    The names of steps count without their number.
    """
    own_ns = own_work(graph)
    rows = graph.activities.select(
        "rank", as_text("kind", "op", "step"), as_text("name").str.replace(r"#\d+$", "")
    ).with_columns(position=pl.int_range(pl.len()).over([*_SAME, "step"]))
    by_position, shared = _groups(rows, [*_SAME, "position"], pl.col("step").is_not_null())
    by_name, _ = _groups(rows, _SAME, pl.lit(True))
    group = np.where(shared, by_position, by_name + rows.height)
    fixed = rows.select(pl.col("kind").is_in(_FIXED).fill_null(True)).to_series().to_numpy()
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.searchsorted(ordered, group, side="left")
    count = np.where(fixed, 0, np.searchsorted(ordered, group, side="right") - first)
    return Samples(first, count, own_ns[order], own_ns)


def _groups(rows: pl.DataFrame, same: list[str], counts: pl.Expr) -> tuple[_Ints, NDArray[np.bool_]]:
    """The group of each row, as the row of its first member; whether several rows that count are in it."""
    numbered = rows.with_row_index("row").with_columns(counts=counts)
    found = numbered.select(
        pl.col("row").first().over([*same, "counts"]).cast(pl.Int64).alias("group"),
        (pl.col("counts") & (pl.len().over([*same, "counts"]) > 1)).alias("shared"),
    )
    return found.get_column("group").to_numpy(), found.get_column("shared").to_numpy()


_Flags = NDArray[np.bool_]

_SEED = 20_140
"""The state from which the numbers of every step's replays begin: the same in every run."""
_WORTH_BUILDING_EDGES = 1 << 20
"""Edges of all replays together, for which Python takes 6 s and more; building the native library takes some 10 s, and
serves all later answers.
"""
_NOT_READY = -(2**63)
"""The ready time of a moment before any edge to it is seen."""


class _Window(NamedTuple):
    """The part of a graph that a step's path lies in, numbered from 0; what is not later than the
    start of the step keeps its measured times.

    Args:
        first: where the edges of each moment begin.
        before: the moment before of each edge; negative: before the window.
        work_ns: of each edge.
        activity: of each edge, numbered within the window.
        resampled: whether the edge's work is its activity's own.
        allowed: whether a path may take it.
        time_ns: measured, of each moment.
        before_ns: measured, of the moment before of each edge.
        residual_ns: of each moment.
        ends: the moments at which the step may end.
        limits: the start of the step in ns; the number of replays.
    """

    first: _Ints
    before: _Ints
    work_ns: _Ints
    activity: _Ints
    resampled: _Flags
    allowed: _Flags
    time_ns: _Ints
    before_ns: _Ints
    residual_ns: _Ints
    ends: _Ints
    limits: _Ints


def replays_on_path(
    graph: DependencyGraph, bounds: StepBounds, drawn: Samples, allowed: _Flags, replays: int
) -> tuple[_Ints, _Ints]:
    """The activities that are on the path of a step in any replay, and in how many each is.

    In each replay every activity of the step's window gets a duration of its group (`samples`); its work at each
    point of it changes in proportion. Latencies and residuals stay as they are.
    """
    lowest = int(np.searchsorted(graph.moments.time_ns, bounds.start_ns, side="right"))
    ends = bounds.ends[bounds.ends >= lowest]
    if not len(ends):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    highest = int(ends.max()) + 1
    edges = slice(int(graph.edges.first[lowest]), int(graph.edges.first[highest]))
    activities, number = np.unique(graph.edges.activity[edges], return_inverse=True)
    before = graph.edges.before[edges]
    window = _Window(
        graph.edges.first[lowest : highest + 1] - edges.start,
        before.astype(np.int64) - lowest,
        graph.edges.work_ns[edges],
        number.astype(np.int64).reshape(-1),
        np.isin(graph.edges.kind[edges], OWN_WORK),
        allowed[edges],
        graph.moments.time_ns[lowest:highest],
        graph.moments.time_ns[before],
        graph.moments.residual_ns[lowest:highest],
        ends - lowest,
        np.array([bounds.start_ns, replays], dtype=np.int64),
    )
    groups = (drawn.first[activities], drawn.count[activities], drawn.own_ns[activities])
    counted = np.zeros(len(activities), dtype=np.int64)
    _count(window, groups, drawn.work_ns, _SEED, counted)
    seen = np.flatnonzero(counted)
    return activities[seen].astype(np.int64), counted[seen]


@native_loop
def _count(
    window: _Window, groups: tuple[_Ints, _Ints, _Ints], drawn_ns: _Ints, seed: int, counted: _Ints
) -> None:
    """Number of replays in which each activity of the window is on the path."""
    group_first, group_count, own_ns = groups
    last_seen, factor = np.empty(len(own_ns), dtype=np.int64), np.empty(len(own_ns), dtype=np.float64)
    for activity in range(len(own_ns)):
        last_seen[activity], factor[activity] = -1, 1.0
    times = np.empty(len(window.time_ns), dtype=np.int64)
    latest_edge = np.empty(len(window.time_ns), dtype=np.int64)
    start_ns = window.limits[0]
    state = seed
    for replay in range(window.limits[1]):
        for activity in range(len(own_ns)):
            if group_count[activity] > 1 and own_ns[activity] > 0:
                # "Minimal standard" generator (Park and Miller, 1988): multiplier 48271, modulus 2^31 - 1.
                state = (state * 48271) % 2147483647
                drawn = group_first[activity] + (state * group_count[activity]) // 2147483647
                factor[activity] = drawn_ns[drawn] / own_ns[activity]
        for moment in range(len(times)):
            latest, allowed, chosen = _NOT_READY, _NOT_READY, -1
            for edge in range(window.first[moment], window.first[moment + 1]):
                work = window.work_ns[edge]
                if window.resampled[edge] and work > 0:
                    work = np.int64(work * factor[window.activity[edge]])
                before = window.before[edge]
                ready = (times[before] if before >= 0 else window.before_ns[edge]) + work
                latest = max(latest, ready)
                if window.allowed[edge] and ready > allowed:
                    allowed, chosen = ready, edge
            if latest == _NOT_READY:
                times[moment] = window.time_ns[moment]
            else:
                times[moment] = latest + window.residual_ns[moment]
            latest_edge[moment] = chosen
        current = window.ends[0]
        for end in window.ends:
            if times[end] > times[current]:
                current = end
        while current >= 0 and times[current] > start_ns and latest_edge[current] >= 0:
            edge = latest_edge[current]
            activity = window.activity[edge]
            if window.resampled[edge] and window.work_ns[edge] > 0 and last_seen[activity] != replay:
                last_seen[activity] = replay
                counted[activity] += 1
            current = window.before[edge]


def stability_table(
    graph: DependencyGraph,
    step: str | None,
    counted: tuple[_Ints, _Ints],
    on_path: _Ints,
    replays: int,
) -> pl.DataFrame:
    """`PATH_STABILITY` of a step."""
    activities, times = counted
    rows = graph.activities[activities].with_columns(
        pl.lit(step, dtype=pl.String).alias("step"),
        pl.Series("activity", activities, dtype=pl.Int64),
        pl.Series("is_on_path", np.isin(activities, on_path)),
        pl.Series("on_path", times / max(replays, 1)),
        pl.lit(replays).alias("replays"),
    )
    return PATH_STABILITY.conform(rows).sort("on_path", "activity", descending=[True, False])


DEFAULT_REPLAYS = 100
"""Perturbed replays of each step: a share of them is then right to 10 percentage points (95 % confidence)."""


class PathOptions(Struct, frozen=True):
    """Requested paths.

    Args:
        step: the name of a step, or its number; None: all steps.
        rank: the path stays within this rank and ends with it; None: it goes over all ranks.
        replays: perturbed replays of each step; 0: none.
    """

    step: str | int | None = None
    rank: int | None = None
    replays: int = DEFAULT_REPLAYS


def find_path(graph: DependencyGraph, options: PathOptions, replay_error: ReplayError) -> CriticalPath:
    """The critical path of each step that is asked for."""
    _check(graph, options)
    bounds = _chosen(step_bounds(graph, options.rank), options.step)
    ranks, columns = moment_ranks(graph), activity_columns(graph)
    ways = (way_back(graph, step, ranks, options.rank) for step in bounds)
    parts = [segments(graph, columns, way, step.step) for step, way in zip(bounds, ways, strict=True)]
    found = pl.concat([PATH_SEGMENTS.empty(), *parts])
    stability = _stability(graph, bounds, parts, options)
    found = _with_shares(found, stability, options.replays)
    hops = path_hops(found)
    steps = path_steps(_spans(bounds), found, hops)
    left = slack(graph, edge_slack(graph, step_bounds(graph)))
    return CriticalPath(
        steps,
        found,
        path_totals(found, steps),
        hops,
        left if options.rank is None else left.filter(pl.col("rank") == options.rank),
        stability,
        _ranks(graph),
        options.rank,
        replay_error,
        graph.findings,
    )


def _check(graph: DependencyGraph, options: PathOptions) -> None:
    if options.replays < 0:
        raise ArgumentError(f"there cannot be {options.replays} replays: give 0 or more")
    ranks = _ranks(graph)
    if options.rank is not None and options.rank not in ranks:
        have = ", ".join(map(str, ranks)) or "none"
        raise ArgumentError(f"there is no rank {options.rank}; there are: {have}")


def _ranks(graph: DependencyGraph) -> tuple[int, ...]:
    return tuple(graph.activities.get_column("rank").drop_nulls().unique().sort().to_list())


def _chosen(bounds: list[StepBounds], step: str | int | None) -> list[StepBounds]:
    """The step of that name or number; all steps where none is named."""
    if step is None:
        return bounds
    names = [entry.step for entry in bounds if entry.step is not None]
    found = [
        entry
        for entry in bounds
        if entry.step is not None and (entry.step == str(step) or entry.step.endswith(f"#{step}"))
    ]
    if found:
        return found[:1]
    have = f"there are: {some_steps(names)}" if names else "no step is marked"
    raise ArgumentError(f"there is no step {step}; {have}")


def _stability(
    graph: DependencyGraph,
    bounds: Sequence[StepBounds],
    parts: Sequence[pl.DataFrame],
    options: PathOptions,
) -> pl.DataFrame:
    replays = options.replays
    if not replays or not bounds or not len(graph.edges):
        return PATH_STABILITY.empty()
    drawn = samples(graph)
    allowed = np.ones(len(graph.edges), dtype=np.bool_)
    if options.rank is not None:
        allowed = allowed_edges(graph, options.rank)
    # Each loop sees its arrays, not how often it goes over them.
    native_library(is_worth_building=len(graph.edges) * replays >= _WORTH_BUILDING_EDGES)
    # Loops of the native library run beside each other.
    with ThreadPoolExecutor(pl.thread_pool_size()) as threads:
        counts = threads.map(lambda step: replays_on_path(graph, step, drawn, allowed, replays), bounds)
        found = [
            stability_table(graph, step.step, counted, part.get_column("activity").to_numpy(), replays)
            for step, part, counted in zip(bounds, parts, counts, strict=True)
        ]
    return pl.concat(found)


def _with_shares(found: pl.DataFrame, stability: pl.DataFrame, replays: int) -> pl.DataFrame:
    """The segments with the share of replays in which the activity of each is on the path."""
    if not replays:
        return found
    shares = stability.select("step", "activity", "on_path")
    joined = found.drop("on_path").join(
        shares, on=["step", "activity"], how="left", nulls_equal=True, maintain_order="left"
    )
    return PATH_SEGMENTS.conform(joined.with_columns(pl.col("on_path").fill_null(0.0)))


def _spans(bounds: Sequence[StepBounds]) -> pl.DataFrame:
    rows = [(step.step, step.start_ns, step.end_ns - step.start_ns) for step in bounds]
    schema = {"step": pl.String(), "start_ns": pl.Int64(), "span_ns": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row")
