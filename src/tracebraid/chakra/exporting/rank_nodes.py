"""A rank's dependency graph as the nodes of an `.et` file, with the costs of its ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import Detail, NodeType
from tracebraid.chakra.exporting.host_tasks import network_of
from tracebraid.chakra.exporting.merged import rank_as_lane
from tracebraid.chakra.exporting.reduction import reduced
from tracebraid.chakra.exporting.tasks import NONE, TaskKind, Tasks, Waits, node_columns
from tracebraid.chakra.schema import SCHEMA_VERSION, ChakraRank, NodeDeps
from tracebraid.graph.edge_order import order_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import RankGraph
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]


class Delayed(Struct, frozen=True, eq=False):
    """Work with its delays.

    Args:
        tasks: all work, the delays last.
        waits: those of late points are moved to the start of the delay.
        times_ns: of all points, those at which delays start last.
    """

    tasks: Tasks
    waits: Waits
    times_ns: _Ints


def delayed(
    times_ns: _Ints,
    tasks: Tasks,
    waits: Waits,
    belongs: tuple[_Ints, _Ints, NDArray[np.bool_]],
    begins_ns: int | None = None,
) -> Delayed:
    """Let each point that is later than all that it waits for wait for a delay that makes up the difference.

    A point that waits for nothing is late by the time since the beginning.
    """
    activity, lane, on_device = belongs
    used = np.zeros(len(times_ns), dtype=np.bool_)
    for points in (tasks.start, tasks.end, waits.before, waits.after):
        used[points] = True
    earliest = int(times_ns[used].min()) if used.any() else 0
    earliest = earliest if begins_ns is None else min(begins_ns, earliest)
    ready_ns = np.full(len(times_ns), earliest, dtype=np.int64)
    np.maximum.at(ready_ns, waits.after, times_ns[waits.before])
    ready_ns[tasks.end] = times_ns[tasks.end]
    late = np.flatnonzero(used & (times_ns > ready_ns))
    fresh = len(times_ns) + np.arange(len(late))
    moved = np.arange(len(times_ns))
    moved[late] = fresh
    parts = [tasks]
    for kind, of_device in ((TaskKind.HOST_DELAY, False), (TaskKind.DEVICE_DELAY, True)):
        chosen = on_device[late] == of_device
        point = late[chosen]
        parts.append(Tasks.of((fresh[chosen], point), kind, activity[point], lane=lane[point]))
    return Delayed(
        Tasks.joined(parts), Waits(waits.before, moved[waits.after]), np.r_[times_ns, ready_ns[late]]
    )


class Contracted(Struct, frozen=True, eq=False):
    """Dependencies of tasks.

    Args:
        order: the tasks, each after its dependencies.
        waits: of each entry the task that waits.
        before: the task that it waits for.
        dropped: waits that were left out, since they close a circle.
    """

    order: _Ints
    waits: _Ints
    before: _Ints
    dropped: int


def contracted(times_ns: _Ints, tasks: Tasks, waits: Waits) -> Contracted:
    """Dependencies of each task.

    Of several tasks of one lane only the last counts: it waits for the others itself.
    """
    before, after = np.r_[tasks.start, waits.before], np.r_[tasks.end, waits.after]
    task = np.r_[np.arange(len(tasks)), np.full(len(waits), NONE, dtype=np.int64)]
    by_after = np.argsort(after, kind="stable")
    first = _first(after, len(times_ns))
    order = order_of(times_ns, first, before[by_after].astype(np.int32))
    position = order.position.astype(np.int64)
    forward = position[before] < position[after]
    kept = by_after[forward[by_after]]
    found, begin, size = _sets(
        order.moments,
        (_first(after[kept], len(times_ns)), before[kept], task[kept]),
        (tasks.lane, times_ns[tasks.end]),
    )
    count = size[tasks.start]
    entry = np.repeat(begin[tasks.start] - np.cumsum(count) + count, count) + np.arange(count.sum())
    return Contracted(
        np.lexsort((np.arange(len(tasks)), position[tasks.start])),
        np.repeat(np.arange(len(tasks)), count),
        found[entry],
        int(np.count_nonzero(~forward)),
    )


def _first(after: _Ints, count: int) -> _Ints:
    """Offsets of the entries of each point, with one entry more."""
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(after, minlength=count), out=first[1:])
    return first


@native_loop
def _sets(
    order: NDArray[np.int32], entries: tuple[_Ints, _Ints, _Ints], tasks: tuple[_Ints, _Ints]
) -> tuple[_Ints, _Ints, _Ints]:
    """The tasks that end each point, one behind the other, where those of each begin, and how many they are."""
    first, before, task = entries
    lane, end_ns = tasks
    begin, size = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    found: list[int] = []
    for point in order:
        own: list[int] = []
        for entry in range(first[point], first[point + 1]):
            waited, other = task[entry], before[entry]
            for new in [waited] if waited >= 0 else found[begin[other] : begin[other] + size[other]]:
                # Those of its lane that ended before are covered by it, and it by one that ended later.
                same = [lane[new] >= 0 and lane[old] == lane[new] for old in own]
                is_covered = any(
                    old == new or (is_same and end_ns[old] > end_ns[new])
                    for old, is_same in zip(own, same, strict=True)
                )
                own = [
                    old
                    for old, is_same in zip(own, same, strict=True)
                    if not is_same or end_ns[old] >= end_ns[new]
                ]
                if not is_covered:
                    own.append(new)
        begin[point], size[point] = len(found), len(own)
        found += own
    return np.array(found, dtype=np.int64), begin, size


def rank_nodes(
    graph: RankGraph,
    communication: pl.DataFrame,
    detail: Detail = Detail.FULL,
    begins_ns: int | None = None,
    borders_ns: Sequence[int] | _Ints = (),
) -> ChakraRank:
    """Build the nodes of a rank and their dependencies.

    A node starts when all that it waits for has ended; then each work starts and ends when it did in the trace: what
    is not explained is a delay in front of it. Communication takes as long as its transfer. No work of a thread goes on
    over a border.
    """
    if detail is Detail.MERGED:
        return rank_as_lane(graph, communication, begins_ns)
    network = network_of(graph, communication, detail, borders_ns)
    on_device = graph.activities.get_column("stream").is_not_null().to_numpy()[network.activity]
    belongs = (network.activity, network.lane, on_device)
    late = delayed(network.times_ns, network.tasks, network.waits, belongs, begins_ns)
    found = contracted(late.times_ns, late.tasks, late.waits)
    number = np.empty(len(found.order), dtype=np.int64)
    number[found.order] = np.arange(len(found.order))
    tasks = late.tasks[found.order]
    deps = reduced(number[found.before], number[found.waits], tasks.lane)
    spans_ns = (late.times_ns[tasks.start], late.times_ns[tasks.end])
    nodes = node_columns(graph, tasks, spans_ns, communication, detail)
    count = len(tasks)
    return ChakraRank(
        graph.rank,
        SCHEMA_VERSION,
        (),
        nodes,
        NodeDeps.of_pairs(deps.before, deps.after, np.arange(count)),
        NodeDeps.none(count),
        (*graph.findings, *_findings(found.dropped, network.unordered)),
        spans_ns,
    )


def _findings(dropped: int, unordered: int) -> list[Finding]:
    counts = {
        FindingCode.GRAPH_EDGES_CONTRADICTED: dropped,
        FindingCode.CHAKRA_UNORDERED: unordered,
    }
    return [Finding.of(code, count=count) for code, count in counts.items() if count]


_COSTS = {"flops": "num_ops", "bytes": "tensor_size"}


def with_costs(nodes: pl.DataFrame, graph: RankGraph, costs: pl.DataFrame) -> pl.DataFrame:
    """Add the costs of ops to nodes, shared among an op's nodes by duration.

    The work of devices has them, where an op launched any; else its work on the host. So the costs of all nodes add up
    to those of all ops.
    """
    if costs.is_empty():
        return nodes
    op_of_event = graph.activities.filter(pl.col("event_id").is_not_null()).select(
        "event_id", "op_event", pl.col("stream").is_not_null().alias("is_on_device")
    )
    owned = (
        nodes.select("event_id", "duration_ns", as_text("type"))
        .with_row_index("row")
        .filter(pl.col("type") == NodeType.COMP_NODE.name)
        .join(op_of_event, on="event_id", how="inner", maintain_order="left")
        .join(costs, on="op_event", how="inner", maintain_order="left")
        .filter(pl.col("is_on_device") == pl.col("is_on_device").any().over("counted_event"))
    )
    shares = owned.select("row", *(_share(cost).alias(name) for cost, name in _COSTS.items()))
    return (
        nodes.drop(_COSTS.values())
        .with_row_index("row")
        .join(shares, on="row", how="left", maintain_order="left")
        .select(nodes.columns)
    )


def _share(cost: str) -> pl.Expr:
    """Split the cost of an op among its nodes into integers with the same sum."""
    total_ns = pl.col("duration_ns").sum().over("counted_event")
    weight = pl.when(total_ns > 0).then("duration_ns").otherwise(1).cast(pl.Float64)
    until = (weight.cum_sum() / weight.sum()).over("counted_event")
    reached = (until * pl.col(cost)).round().cast(pl.Int64)
    return reached - reached.shift(fill_value=0).over("counted_event")
