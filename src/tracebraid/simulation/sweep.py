"""Gain of a step if each kind of work were faster: ops, kernels, modules, collectives, latencies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.graph.latest_edges import latest_edges
from tracebraid.model.answers.graph import SWEEP, SweepBy, SweepScope
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Edges
from tracebraid.model.step import is_step_name
from tracebraid.native.loops import native_loop
from tracebraid.simulation.replay import job_step_times, replay, step_moments

_Ints = NDArray[np.int64]

BUDGET_BYTES = 256 << 20
"""The most memory for the times of the scenarios that are computed together; a single one may take more."""

_TOGETHER = 32
"""Scenarios that are computed together at most: the fastest on traces of 50 MB."""


class Scenarios(Struct, frozen=True, eq=False):
    """Scale the work of edges for each scenario, rounded to ns.

    Args:
        group: of each edge, such as the family of its activity; from 0 up to the columns of `factor`.
        factor: by what each scenario (row) multiplies the work of each group (column); not negative.
    """

    group: NDArray[np.int32]
    factor: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.factor)


def replay_many(
    edges: Edges, residual_ns: _Ints, scenarios: Scenarios, chosen: _Ints, budget_bytes: int = BUDGET_BYTES
) -> _Ints:
    """Times of the selected moments in each scenario, in ns after the earliest: a row per scenario.

    As `replay` computes them, with work as the scenario has it.
    """
    together = budget_bytes // (8 * max(len(residual_ns), 1))
    together = min(max(together, 1), _TOGETHER)
    found = np.empty((len(scenarios), len(chosen)), dtype=np.int64)
    for low in range(0, len(scenarios), together):
        # Of each group the factors of all scenarios lie side by side.
        factor = np.ascontiguousarray(scenarios.factor[low : low + together].T)
        times = np.zeros((len(residual_ns), factor.shape[1]), dtype=np.float64)
        arrays = (edges.first, edges.before, edges.work_ns, scenarios.group)
        _replay(arrays, residual_ns, factor, times)
        found[low : low + together] = times[chosen].T
    return found


@native_loop
def _replay(
    edges: tuple[_Ints, NDArray[np.int32], _Ints, NDArray[np.int32]],
    residual_ns: _Ints,
    factor: NDArray[np.float64],
    times: NDArray[np.float64],
) -> None:
    """Fill `times`, which are 0, moment by scenario. Whole numbers of ns are exact in floats below 104 days."""
    first, before, work_ns, group = edges
    count = times.shape[1]
    for moment in range(len(residual_ns)):
        for edge in range(first[moment], first[moment + 1]):
            start, work, scaled = before[edge], work_ns[edge], group[edge]
            if work == 0:
                for scenario in range(count):
                    times[moment, scenario] = max(times[moment, scenario], times[start, scenario])
            else:
                for scenario in range(count):
                    ready = times[start, scenario] + np.rint(work * factor[scaled, scenario])
                    times[moment, scenario] = max(times[moment, scenario], ready)
        residual = residual_ns[moment]
        if residual != 0:
            for scenario in range(count):
                times[moment, scenario] += residual


def edges_of_path(edges: Edges, times_ns: _Ints, end: int) -> NDArray[np.bool_]:
    """Return whether each edge is on the critical path."""
    latest = latest_edges(edges, times_ns)
    on_path = np.zeros(len(edges), dtype=np.bool_)
    _mark(latest, edges.before, end, on_path)
    return on_path


@native_loop
def _mark(latest: _Ints, before: NDArray[np.int32], end: int, on_path: NDArray[np.bool_]) -> None:
    moment = end
    while latest[moment] >= 0:
        edge = latest[moment]
        on_path[edge] = True
        moment = before[edge]


_DEVICE_KINDS = (ActivityKind.KERNEL.value, ActivityKind.COPY.value)
_LATENCIES = (
    EdgeKind.LAUNCH,
    EdgeKind.STREAM_ORDER,
    EdgeKind.STREAM_OVERLAP,
    EdgeKind.STREAM_END,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC,
    EdgeKind.THREAD,
    EdgeKind.FORWARD_BACKWARD,
    EdgeKind.COMMUNICATION_WAIT,
    EdgeKind.QUEUE,
)


class Partition(Struct, frozen=True, eq=False):
    """Groups of edges that have none in common.

    Args:
        by: the grouping.
        scope: which of the work of a group's activities it is.
        names: the names of the groups.
        group: the group of each edge, its entry of `names`; -1: none.
    """

    by: SweepBy
    scope: SweepScope
    names: tuple[str, ...]
    group: NDArray[np.int32]


def partitions(graph: DependencyGraph) -> Iterator[Partition]:
    """All groups of work of a graph, by each of `SweepBy`; none has edges without work only."""
    edges = graph.edges
    works = edges.work_ns > 0
    host = works & (edges.kind == EdgeKind.HOST)
    own = works & np.isin(edges.kind, [EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER])
    rows = graph.activities.select(pl.col("kind", "name", "family", "op", "module", "group").cast(pl.String))
    labels = rows.select(
        op=_of_kind(pl.col("name"), ActivityKind.OP.value),
        in_op="op",
        module="module",
        family=_of_kind(pl.col("family"), *_DEVICE_KINDS),
        kernel=_of_kind(pl.col("name"), *_DEVICE_KINDS),
        python=_of_kind(pl.col("name"), ActivityKind.PYTHON.value),
        call=_of_kind(pl.col("name"), ActivityKind.CALL.value),
        annotation=_of_kind(_step_or_name(graph.annotation), ActivityKind.ANNOTATION.value),
    ).with_columns(_threads(graph), _collectives(graph))
    every = (
        (SweepBy.OP, SweepScope.SELF, "op", host),
        (SweepBy.OP, SweepScope.LAUNCHED, "in_op", own),
        (SweepBy.MODULE, SweepScope.SELF, "module", host),
        (SweepBy.MODULE, SweepScope.LAUNCHED, "module", own),
        (SweepBy.FAMILY, SweepScope.SELF, "family", own),
        (SweepBy.KERNEL, SweepScope.SELF, "kernel", own),
        (SweepBy.COLLECTIVE, SweepScope.SELF, "collective", own),
        (SweepBy.PYTHON, SweepScope.SELF, "python", host),
        (SweepBy.CALL, SweepScope.SELF, "call", host),
        (SweepBy.ANNOTATION, SweepScope.SELF, "annotation", host),
        (SweepBy.THREAD, SweepScope.SELF, "thread", host),
    )
    for by, scope, column, chosen in every:
        names, code = _codes(labels.get_column(column))
        yield Partition(by, scope, names, np.where(chosen, code[edges.activity], np.int32(-1)))
    yield _latencies(graph, works)


def _of_kind(label: pl.Expr, *kinds: str) -> pl.Expr:
    return pl.when(pl.col("kind").is_in(kinds)).then(label)


def _step_or_name(annotation: str) -> pl.Expr:
    return pl.when(is_step_name(pl.col("name"), annotation)).then(pl.lit(annotation)).otherwise("name")


def _threads(graph: DependencyGraph) -> pl.Series:
    """Rank and thread of each activity."""
    rows = graph.activities.select("rank", "lane", pl.col("kind", "name").cast(pl.String))
    threads = rows.filter(pl.col("kind") == ActivityKind.THREAD.value).unique(["rank", "lane"])
    named = threads.select("rank", "lane", thread=pl.format("rank {} {} ({})", "rank", "name", "lane"))
    found = rows.select("rank", "lane").join(named, on=["rank", "lane"], how="left", maintain_order="left")
    return found.get_column("thread")


def _collectives(graph: DependencyGraph) -> pl.Series:
    """Type and group of each activity of communication; of what has no type its name."""
    types = graph.ranks.members.select("rank", "event_id", pl.col("type").cast(pl.String))
    rows = graph.activities.select("rank", "event_id", pl.col("kind", "name", "group").cast(pl.String)).join(
        types.unique(["rank", "event_id"]), on=["rank", "event_id"], how="left", maintain_order="left"
    )
    name = pl.coalesce("type", "name")
    name = pl.when(pl.col("group").is_null()).then(name).otherwise(pl.format("{} {}", name, "group"))
    found = rows.select(_of_kind(name, ActivityKind.COMMUNICATION.value).alias("collective"))
    return found.get_column("collective")


def _codes(labels: pl.Series) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    names = labels.drop_nulls().unique().sort()
    ranked = labels.rank("dense").cast(pl.Int32) - 1
    return tuple(names.to_list()), ranked.fill_null(-1).to_numpy()


def _latencies(graph: DependencyGraph, works: NDArray[np.bool_]) -> Partition:
    code = np.full(max(EdgeKind) + 1, -1, dtype=np.int32)
    code[list(_LATENCIES)] = np.arange(len(_LATENCIES))
    names = tuple(kind.name.lower() for kind in _LATENCIES)
    group = np.where(works, code[graph.edges.kind], np.int32(-1))
    return Partition(SweepBy.LATENCY, SweepScope.SELF, names, group)


DEFAULT_GROUPS = 300
"""Maximum groups with computed gains, those with most work on the path: more than traces of 50 MB have."""

_GONE = (0.1, 0.5, 1.0)


class _Base(Struct, frozen=True, eq=False):
    """A run as it was.

    Args:
        graph: the graph.
        end: the moments at which its last step ends, on any rank.
        end_ns: when the last of these is.
        total_ns: the time of all steps.
        steps: how many there are.
        counts: whether each edge lies in the steps, and not before the first.
        on_path: whether each edge is on the critical path.
    """

    graph: DependencyGraph
    end: _Ints
    end_ns: int
    total_ns: int
    steps: int
    counts: NDArray[np.bool_]
    on_path: NDArray[np.bool_]


def sweep_of(
    graph: DependencyGraph, *, by: Collection[SweepBy] = tuple(SweepBy), groups: int = DEFAULT_GROUPS
) -> pl.DataFrame:
    """The gain of a step were each group of work faster by 10 %, 50 % and 100 %: `SWEEP`.

    The run ends by so much earlier, over the number of its steps; what happens before the first step stays as it was,
    and so do residuals. No gain is more than the group's work on the critical path, so that groups off the path gain 0
    without a replay.
    """
    if graph.steps.is_empty() or not len(graph.edges):
        return SWEEP.empty()
    base = _base(graph)
    chosen = [partition for partition in partitions(graph) if partition.by in by]
    tables = [_works(base, partition, number) for number, partition in enumerate(chosen)]
    rows = _without_repeats(pl.concat(tables)).sort("on_path_ns", descending=True, maintain_order=True)
    rows = rows.with_columns(computed=pl.int_range(pl.len()) < groups)
    if rows.is_empty():  # Nothing takes any time.
        return SWEEP.empty()
    gains = [
        _gains(base, chosen[number], part)
        for (number,), part in rows.group_by("partition", maintain_order=True)
    ]
    found = rows.join(pl.concat(gains), on=["partition", "code"], how="left", maintain_order="left")
    return _table(base, found)


def _base(graph: DependencyGraph) -> _Base:
    edges, moments = graph.edges, step_moments(graph.steps)
    times = replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)
    steps = job_step_times(times, moments)
    ends = np.unique(np.concatenate([moments.host_end, moments.device_end]))
    end = int(ends[times[ends].argmax()])
    counts = times[graph.after] > steps.start_ns.min()
    return _Base(
        graph,
        ends,
        int(times[end]),
        max(int(times[end] - steps.start_ns.min()), 1),
        len(moments.names),
        counts,
        edges_of_path(edges, times, end) & counts,
    )


def _works(base: _Base, partition: Partition, number: int) -> pl.DataFrame:
    """The work of each group of a partition, of those that have any."""
    edges = base.graph.edges
    rows = np.flatnonzero(base.counts & (partition.group >= 0))
    group, work = partition.group[rows], edges.work_ns[rows]
    frame = pl.DataFrame(
        {
            "code": group,
            "activity": edges.activity[rows],
            "work_ns": work,
            "path_ns": np.where(base.on_path[rows], work, 0),
        }
    )
    found = frame.group_by("code").agg(
        pl.col("activity").n_unique().cast(pl.Int64).alias("activities"),
        pl.col("work_ns").sum().alias("total_ns"),
        pl.col("path_ns").sum().alias("on_path_ns"),
    )
    names = pl.Series("name", partition.names, dtype=pl.String)
    return found.sort("code").select(
        pl.lit(number, dtype=pl.Int64).alias("partition"),
        pl.col("code").cast(pl.Int64),
        pl.lit(partition.by.value).alias("group_by"),
        pl.lit(partition.scope.value).alias("scope"),
        names.gather(found.sort("code").get_column("code")),
        "activities",
        "total_ns",
        "on_path_ns",
    )


def _without_repeats(rows: pl.DataFrame) -> pl.DataFrame:
    """Drop groups that launched nothing, whose `launched` row would equal `self`."""
    return rows.unique(["group_by", "name", "activities", "total_ns"], keep="first", maintain_order=True)


def _gains(base: _Base, partition: Partition, rows: pl.DataFrame) -> pl.DataFrame:
    """Gain of the run, by group and removed share of its work."""
    off = rows.filter(pl.col("on_path_ns") == 0).get_column("code")
    codes = rows.filter(pl.col("computed") & (pl.col("on_path_ns") > 0)).get_column("code")
    gains = _replayed(base, partition, codes.to_numpy())
    keys = pl.concat([codes, off])
    values = np.concatenate([gains, np.zeros((len(off), len(_GONE)), dtype=np.int64)])
    return pl.DataFrame(
        {
            "partition": np.full(len(keys), rows.item(0, "partition"), dtype=np.int64),
            "code": keys,
            **{f"run_{round(100 * gone)}_ns": values[:, column] for column, gone in enumerate(_GONE)},
        }
    )


def _replayed(base: _Base, partition: Partition, codes: _Ints) -> _Ints:
    """The gain of the run: a row for each of the groups, a column for each of `_GONE`."""
    if not len(codes):
        return np.zeros((0, len(_GONE)), dtype=np.int64)
    # Column 0 of the factors is of all edges that are in no group whose gain is computed.
    column = np.zeros(len(partition.names) + 1, dtype=np.int32)
    column[codes] = np.arange(1, len(codes) + 1)
    group = np.where(base.counts, column[partition.group], np.int32(0))
    factor = np.ones((len(codes), len(_GONE), len(codes) + 1))
    for row in range(len(codes)):
        factor[row, :, row + 1] -= _GONE
    scenarios = Scenarios(group, factor.reshape(-1, len(codes) + 1))
    graph = base.graph
    times = replay_many(graph.edges, graph.moments.residual_ns, scenarios, base.end)
    gains: _Ints = base.end_ns - times.max(axis=1)
    return gains.reshape(len(codes), len(_GONE))


def _table(base: _Base, rows: pl.DataFrame) -> pl.DataFrame:
    percents = [round(100 * gone) for gone in _GONE]
    found = rows.with_columns(
        (pl.col("on_path_ns") / base.total_ns).alias("on_path"),
        *((pl.col(f"run_{percent}_ns") / base.steps).alias(f"gain_{percent}_ns") for percent in percents),
        *((pl.col(f"run_{percent}_ns") / base.total_ns).alias(f"gain_{percent}") for percent in percents),
    )
    order = ["gain_50_ns", "gain_100_ns", "on_path_ns", "total_ns"]
    return SWEEP.conform(found.sort(order, descending=True, nulls_last=True, maintain_order=True))
