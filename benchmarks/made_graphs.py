"""Dependency graphs that are made by numpy, or read from the tables of a published job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.measure import Measured, Stopwatch
from tracebraid.graph.edge_order import Order, Rows, edges_in_order
from tracebraid.model.graph import (
    ActivityKind,
    DependencyGraph,
    EdgeKind,
    EdgeList,
    Edges,
    Moments,
    Point,
    RankGraph,
    Residual,
    moment,
)
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import (
    ACTIVITIES,
    CLOCKS,
    GRAPH_STEPS,
    LATENCIES,
    MATCHED_COLLECTIVES,
    MEMBERS,
    RANKS,
)
from tracebraid.simulation.stragglers import Operations

_PERIOD_NS, _CALL_NS, _OP_NS, _LAUNCH_NS = 20_000, 4_000, 8_000, 6_000
_BETWEEN_COLLECTIVES = 32
_STEPS = 4


def generated_rank(rank: int, events: int) -> RankGraph:
    """The part of a rank."""
    import numpy as np

    from tracebraid.model.graph import EdgeKind, EdgeList, RankGraph

    count = max(events // 3, 1)
    number = np.arange(count)
    times = _times(count, rank)
    op, call, thread, kernel = number, count + number, 2 * count, 2 * count + 1 + number
    between = 2 * thread + np.zeros(count, dtype=np.int64)
    between[1:] = 2 * op[:-1] + 1
    host = [(between, 2 * op, np.full(count, thread)), (2 * op, 2 * call, op)]
    host += [(2 * call, 2 * call + 1, call), (2 * call + 1, 2 * op + 1, op)]
    last = np.array([2 * op[-1] + 1])
    host.append((last, np.array([2 * thread + 1]), np.array([thread])))
    edges = [
        EdgeList.of(before, after, EdgeKind.HOST, owner, times[after] - times[before])
        for before, after, owner in host
    ]
    launch = np.full(count, _LAUNCH_NS)
    duration = times[2 * kernel + 1] - times[2 * kernel]
    edges += [
        EdgeList.of(2 * call, 2 * kernel, EdgeKind.LAUNCH, kernel, launch),
        EdgeList.of(2 * kernel, 2 * kernel + 1, EdgeKind.DEVICE, kernel, duration),
        EdgeList.of(2 * kernel[:-1] + 1, 2 * kernel[1:], EdgeKind.STREAM_ORDER, kernel[1:]),
    ]
    return RankGraph(rank, _activities(rank, count, times), times, EdgeList.joined(edges)).packed()


def _times(count: int, rank: int):  # type: ignore[no-untyped-def]
    import numpy as np

    number, random = np.arange(count), np.random.default_rng(rank)
    op = number * _PERIOD_NS
    kernel = op + 1_000 + _LAUNCH_NS + random.integers(0, 500, count)
    end = kernel + random.integers(2_000, 10_000, count)
    is_collective = number % _BETWEEN_COLLECTIVES == _BETWEEN_COLLECTIVES - 1
    end[is_collective] = op[is_collective] + 19_000
    starts = np.concatenate([op, op + 1_000, [0], kernel])
    ends = np.concatenate([op + _OP_NS, op + 1_000 + _CALL_NS, [op[-1] + _PERIOD_NS], end])
    return np.column_stack([starts, ends]).reshape(-1)


def _activities(rank: int, count: int, times):  # type: ignore[no-untyped-def]
    import numpy as np
    import polars as pl

    from tracebraid.model.schema.links import ACTIVITIES

    number = np.arange(count)
    steps = pl.Series([f"ProfilerStep#{step}" for step in range(_STEPS)]).cast(pl.Categorical())
    per_step = -(-count // _STEPS)
    step = steps.gather(number // per_step)
    ops = pl.Series([f"aten::op{index}" for index in range(50)]).cast(pl.Categorical()).gather(number % 50)
    marks = pl.Series(number % per_step == 0)
    rows = {
        "op": pl.select(pl.when(marks).then(step).otherwise(ops)).to_series(),
        "call": pl.Series(["cudaLaunchKernel"]).cast(pl.Categorical()).new_from_index(0, count),
        "kernel": ops,
    }
    parts = [
        pl.DataFrame(
            {
                "event_id": first + number,
                "kind": pl.Series([kind]).cast(pl.Categorical()).new_from_index(0, count),
                "name": name,
                "op": ops,
                "op_event": number,
                "lane": np.full(count, int(kind == "kernel")),
                "stream": pl.Series([7 if kind == "kernel" else None], dtype=pl.Int64).new_from_index(
                    0, count
                ),
                "step": step,
            }
        )
        for (kind, name), first in zip(rows.items(), (0, count, 2 * count + 1), strict=True)
    ]
    parts.insert(2, pl.DataFrame({"kind": ["thread"], "name": ["main"], "lane": [0]}))
    whole = pl.concat([ACTIVITIES.conform(part, fill_missing=True) for part in parts])
    return ACTIVITIES.conform(
        whole.with_columns(
            pl.lit(rank).alias("rank"), pl.Series("start_ns", times[::2]), pl.Series("end_ns", times[1::2])
        ),
        fill_missing=True,
    ).rechunk()


def generated_ranks(parts: list[RankGraph]) -> LinkedRanks:
    """The ranks of generated parts, linked with each other."""
    import polars as pl

    from tracebraid.model.linked_ranks import LinkedRanks
    from tracebraid.model.schema.links import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS

    ranks = [part.rank for part in parts]
    found = []
    for part in parts:
        kernels = part.activities.filter(pl.col("stream").is_not_null())
        every = kernels.gather_every(_BETWEEN_COLLECTIVES, _BETWEEN_COLLECTIVES - 1)
        found.append(
            every.select("rank", "event_id", "step", "start_ns", "end_ns").with_row_index("collective")
        )
    members = pl.concat(found).with_columns(
        pl.col("collective").cast(pl.Int64), pl.col("step").cast(pl.String), type=pl.lit("all_reduce")
    )
    members = members.with_columns(stream=pl.lit("7"), group_size=pl.lit(len(ranks)))
    collectives = members.group_by("collective").agg(pl.col("rank").alias("ranks")).sort("collective")
    collectives = collectives.with_columns(
        group=pl.lit("0"),
        type=pl.lit("all_reduce"),
        group_size=pl.lit(len(ranks)),
        missing=pl.lit([], dtype=pl.List(pl.Int64)),
        method=pl.lit("process group and sequence"),
        confidence=pl.lit(1.0),
    )
    rows = pl.DataFrame({"rank": ranks, "host": ["a"] * len(ranks)})
    clocks = rows.with_columns(
        method=pl.lit("same host"), offset_ns=0, offset_low_ns=0, offset_high_ns=0, at_ns=0, drift_ppm=0.0
    )
    return LinkedRanks(
        RANKS.conform(rows, fill_missing=True),
        CLOCKS.conform(clocks, fill_missing=True),
        MEMBERS.conform(members, fill_missing=True),
        MATCHED_COLLECTIVES.conform(collectives, fill_missing=True),
    )


def graph_job(ranks: str, events: str) -> Measured:
    """Join and replay a generated job."""
    from tracebraid.graph.joining import join_ranks
    from tracebraid.simulation.replay import replay

    small = [generated_rank(rank, 300) for rank in range(2)]
    join_ranks(small, generated_ranks(small))  # Compiles.
    watch = Stopwatch()
    parts = [generated_rank(rank, int(events)) for rank in range(int(ranks))]
    linked = generated_ranks(parts)
    watch.lap("make")
    graph = join_ranks(parts, linked)
    watch.lap("join")
    edges, residual_ns = graph.edges, graph.moments.residual_ns
    replay(edges.first, edges.before, edges.work_ns, residual_ns)
    watch.lap("first replay")
    replay(edges.first, edges.before, edges.work_ns, residual_ns)
    watch.lap("replay")
    found = watch.stop()
    return replace(found, parts={**found.parts, "edges": len(edges)})


_Ints = NDArray[np.int64]

_COMMUNICATION = "(send|recv|all-gather|reduce-scatter|all-reduce)$|^optimizer-clip-main-grad$"
_SEND_RECV = "^(forward|backward)-(send|recv)$"

_TIMES = ("duration", "transfer_duration", "launch_delay")
_COLUMNS = {
    "ops": ("step", "dp_rank", "stage", "rank", "optype", "op", *_TIMES),
    "edges": ("before", "after"),
    "groups": ("group", "op", "across_dp_ranks"),
}
"""The columns that are read of each file; it may have more."""


@dataclass(frozen=True, eq=False)
class StragglerJob:
    """A job that was read."""

    # its steps one behind the other: operations of a step begin when all of the step before have
    # ended
    graph: DependencyGraph
    operations: Operations  # of its activities


def straggler_job(folder: Path) -> StragglerJob:
    """Read a job's operations, dependencies and groups.

    The launch delay is the residual of an operation's start. It can be negative here: an operation that was measured
    to start before the end of what it waits for. The times of moments are replayed, and 0 in the graph."""
    ops, edges, groups = (_read(folder, name) for name in _COLUMNS)
    ops = _operations(ops)
    members = _members(ops, groups)
    steps = ops.get_column("step").unique(maintain_order=True)
    whole = members.get_column("number").n_unique()
    first_step = ops.height + whole
    found = EdgeList.joined(
        [
            _works(ops, members),
            _dependencies(ops, edges),
            *_transfers(ops, members),
            *_barriers(ops, first_step, steps.len()),
        ]
    )
    activities = _operation_activities(ops, members, steps)
    order, rows = edges_in_order(np.zeros(2 * activities.height, dtype=np.int64), found)
    if rows.backward:
        raise ValueError(f"{folder}: the dependencies form a cycle")
    return StragglerJob(_graph(ops, activities, order, rows), _labels(ops, activities.height))


def _read(folder: Path, name: str) -> pl.DataFrame:
    """A file's columns that are needed; names as text, whatever type they are written as."""
    texts = ("op", "optype", "before", "after", "group")
    found = pl.read_parquet(folder / f"{name}.parquet").select(_COLUMNS[name])
    return found.with_columns(pl.col(column).cast(pl.String) for column in found.columns if column in texts)


def _operations(ops: pl.DataFrame) -> pl.DataFrame:
    """The operations in the order of steps, with times in whole ns."""

    def ns(name: str) -> pl.Expr:
        return (pl.col(name).cast(pl.Float64).fill_nan(None) * 1e9).round().cast(pl.Int64).alias(f"{name}_ns")

    return (
        ops.sort("step", "dp_rank", "stage", maintain_order=True)
        .unique(["step", "dp_rank", "op"], keep="first", maintain_order=True)
        .with_columns(
            ns("duration").fill_null(0).clip(0),
            ns("transfer_duration").clip(0),
            ns("launch_delay").fill_null(0),
            communicates=pl.col("optype").str.contains(_COMMUNICATION),
        )
        .with_row_index("activity")
        .with_columns(pl.col("activity").cast(pl.Int64))
    )


def _members(ops: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """The operations that communicate, with the `number` of the collective that each takes part in."""
    found = ops.filter(pl.col("transfer_duration_ns").is_not_null()).join(
        groups.unique(), on="op", how="inner", maintain_order="left"
    )
    of = pl.when("across_dp_ranks").then(None).otherwise(pl.col("dp_rank"))
    return found.with_columns(
        number=pl.struct("step", "group", of.alias("of")).rank("dense").cast(pl.Int64) - 1
    )


def _column(frame: pl.DataFrame, name: str) -> _Ints:
    found: _Ints = frame.get_column(name).cast(pl.Int64).to_numpy()
    return found


def _works(ops: pl.DataFrame, members: pl.DataFrame) -> EdgeList:
    """From the start to the end of each operation that waits for no member."""
    alone = ops.join(members.select("activity"), on="activity", how="anti", maintain_order="left")
    own = _column(alone, "activity")
    work = alone.select(pl.coalesce("transfer_duration_ns", "duration_ns").alias("work_ns"))
    return EdgeList.of(
        moment(own, Point.START), moment(own, Point.END), EdgeKind.DEVICE, own, _column(work, "work_ns")
    )


def _dependencies(ops: pl.DataFrame, edges: pl.DataFrame) -> EdgeList:
    keys = ["step", "dp_rank"]
    rows = ops.select(*keys, "op", "activity")
    found = (
        edges.unique(maintain_order=True)
        .join(rows.rename({"activity": "first"}), left_on="before", right_on="op", how="inner")
        .join(
            rows.rename({"activity": "next"}), left_on=["after", *keys], right_on=["op", *keys], how="inner"
        )
    )
    before, after = _column(found, "first"), _column(found, "next")
    return EdgeList.of(moment(before, Point.END), moment(after, Point.START), EdgeKind.STREAM_ORDER, after)


def _transfers(ops: pl.DataFrame, members: pl.DataFrame) -> list[EdgeList]:
    own, whole = _column(members, "activity"), ops.height + _column(members, "number")
    work = _column(members, "transfer_duration_ns")
    start, end = moment(whole, Point.START), moment(whole, Point.END)
    return [
        EdgeList.of(moment(own, Point.START), start, EdgeKind.ARRIVAL, whole),
        EdgeList.of(start, moment(own, Point.END), EdgeKind.TRANSFER, own, work),
        EdgeList.of(moment(own, Point.END), end, EdgeKind.ARRIVAL, whole),
    ]


def _barriers(ops: pl.DataFrame, first: int, steps: int) -> list[EdgeList]:
    """From all ends of a step to the end of its own activity, which starts before all of the step."""
    own = _column(ops, "activity")
    step = first + _column(ops.select(pl.col("step").rank("dense").alias("step")), "step") - 1
    later = first + np.arange(1, steps)
    whole = first + np.arange(steps)
    start, end = moment(whole, Point.START), moment(whole, Point.END)
    return [
        EdgeList.of(moment(step, Point.START), moment(own, Point.START), EdgeKind.STREAM_ORDER, own),
        EdgeList.of(moment(own, Point.END), moment(step, Point.END), EdgeKind.ARRIVAL, step),
        EdgeList.of(start, end, EdgeKind.DEVICE, whole),
        EdgeList.of(moment(later - 1, Point.END), moment(later, Point.START), EdgeKind.STREAM_ORDER, later),
    ]


def _operation_activities(ops: pl.DataFrame, members: pl.DataFrame, steps: pl.Series) -> pl.DataFrame:
    kinds = {True: ActivityKind.COMMUNICATION.value, False: ActivityKind.KERNEL.value}
    own = ops.select(
        pl.col("rank").cast(pl.Int64),
        pl.col("communicates").replace_strict(kinds, return_dtype=pl.String).alias("kind"),
        pl.col("op").alias("name"),
        pl.col("step").cast(pl.String),
    )
    collective = members.sort("number", maintain_order=True).unique("number", maintain_order=True)
    whole = collective.select(
        pl.lit(ActivityKind.COLLECTIVE.value).alias("kind"),
        pl.col("optype").alias("name"),
        pl.col("group").cast(pl.String),
        pl.col("step").cast(pl.String),
    )
    barriers = pl.DataFrame({"step": steps.cast(pl.String)}).select(
        pl.lit(ActivityKind.COLLECTIVE.value).alias("kind"), pl.lit("step").alias("name"), "step"
    )
    parts = (ACTIVITIES.conform(part, fill_missing=True) for part in (own, whole, barriers))
    return ACTIVITIES.conform(pl.concat(list(parts)).with_columns(start_ns=0, end_ns=0))


def _graph(ops: pl.DataFrame, activities: pl.DataFrame, order: Order, rows: Rows) -> DependencyGraph:
    count = len(order.moments)
    delay = np.zeros(count, dtype=np.int64)
    delay[order.position[moment(_column(ops, "activity"), Point.START)]] = _column(ops, "launch_delay_ns")
    moment_of = order.position.reshape(-1, 2)
    return DependencyGraph(
        activities,
        Moments(
            (order.moments // 2).astype(np.int64),
            (order.moments % 2).astype(np.uint8),
            np.zeros(count, dtype=np.int64),
            delay,
            np.where(delay != 0, Residual.LAUNCH, Residual.NONE).astype(np.uint8),
        ),
        Edges(rows.first, rows.before, rows.work_ns, rows.kind, rows.activity),
        moment_of,
        _steps(activities, moment_of),
        LATENCIES.empty(),
        LinkedRanks(RANKS.empty(), CLOCKS.empty(), MEMBERS.empty(), MATCHED_COLLECTIVES.empty()),
    )


def _steps(activities: pl.DataFrame, moment_of: NDArray[np.int32]) -> pl.DataFrame:
    """A row for each step: its bounds are the same for all ranks, of which the least stands for them."""
    rows = activities.select("kind", "rank", step=pl.col("step").cast(pl.String)).with_columns(
        start_moment=moment_of[:, 0], host_end_moment=moment_of[:, 1]
    )
    barriers = rows.tail(rows.get_column("step").n_unique())
    return GRAPH_STEPS.conform(
        barriers.with_columns(rank=pl.lit(rows.get_column("rank").min())), fill_missing=True
    )


def _labels(ops: pl.DataFrame, height: int) -> Operations:
    def padded(label: pl.Expr) -> pl.Series:
        found = ops.select(label.cast(pl.String).alias("label")).to_series()
        return found.extend_constant(None, height - ops.height)

    operation = np.full(height, -1, dtype=np.int64)
    operation[: ops.height] = _column(ops.select(pl.col("optype").rank("dense")), "optype") - 1
    communicates = np.zeros(height, dtype=np.bool_)
    communicates[: ops.height] = ops.get_column("communicates").to_numpy()
    groups = {
        "dp_rank": padded(pl.col("dp_rank")),
        "stage": padded(pl.col("stage")),
        "optype": padded(pl.col("optype").str.replace(_SEND_RECV, "$1-pp-comm")),
    }
    workers = padded(pl.format("{}/{}", pl.col("dp_rank"), pl.col("stage")))
    return Operations(operation, communicates, groups, workers, ("dp_rank", "stage"))
