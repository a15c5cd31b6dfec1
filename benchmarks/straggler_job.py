"""A published job of operations and dependencies as a dependency graph: the folder that `stragglers` reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.joining.edges_in_order import edges_in_order
from tracebraid.graph.joining.order import Order
from tracebraid.graph.joining.rows import Rows
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph, Edges, Moments
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.graph import ACTIVITIES, GRAPH_STEPS, LATENCIES
from tracebraid.model.schema.ranks import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS
from tracebraid.simulation.stragglers.operations import Operations

__all__ = ["StragglerJob", "straggler_job"]

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
    """A job that was read.

    Args:
        graph: its steps one behind the other: operations of a step begin when all of the step before have ended.
        operations: of its activities.
    """

    graph: DependencyGraph
    operations: Operations


def straggler_job(folder: Path) -> StragglerJob:
    """Read a job's operations, dependencies and groups.

    The launch delay is the residual of an operation's start. It can be negative here: an operation that was measured
    to start before the end of what it waits for. The times of moments are replayed, and 0 in the graph.

    Raises:
        OSError: a file is missing.
    """
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
    activities = _activities(ops, members, steps)
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


def _activities(ops: pl.DataFrame, members: pl.DataFrame, steps: pl.Series) -> pl.DataFrame:
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
