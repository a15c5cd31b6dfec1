"""Collectives that the traces lack, as activities of a graph: what other ranks would add up with."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.graph.latest_edges import edge_list, with_activities, with_edges, without_edges
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, EdgeList, Point, Ring, moment
from tracebraid.simulation.changes.communication import ring_ns, said_latency, whole_ns

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

RING_DOUBT = 0.25
"""Half width of the interval of collectives that a formula gives, as a share of their time: chosen, not measured."""

ELEMENT_BYTES = 4
"""Size of an element where the traces do not tell it; half of it at least."""


OF_ACTIVATIONS = "tensor"
"""Group of those that add up activations."""


class NewCollectives(Struct, frozen=True, eq=False):
    """All-reduces that the traces lack, each behind some work.

    Args:
        group: name of the group of each rank that does them.
        behind: row of the work.
        until: the moment that waits for each, which is in a queue of its rank beside what the rank does; None: all
            that waits for the work waits for it instead.
        size_bytes: of each.
        basis: of their times.
        time_ns: three rows: predicted, low and high.
        latency_ns: what of each depends on no size.
    """

    group: str
    behind: _Ints
    until: _Ints | None
    size_bytes: _Ints
    basis: ShapeBasis
    time_ns: _Floats
    latency_ns: float

    @property
    def name(self) -> str:
        """Name of all."""
        return f"{self.group} {CollectiveType.ALL_REDUCE.value}"

    def rows(self, first: int) -> pl.DataFrame:
        """What each costs, as rows of a `Reshaping`; the first is the activity of this number."""
        after, low, high = whole_ns(self.time_ns)
        columns = {"after_ns": after, "low_ns": low, "high_ns": high}
        return pl.DataFrame(
            {
                "activity": first + np.arange(len(after), dtype=np.int32),
                "before_ns": np.zeros(len(after), dtype=np.int64),
                **columns,
            }
        ).with_columns(what=pl.lit(self.name), basis=pl.lit(self.basis.value))


def ring_times(network: Ring, ranks: int, size_bytes: _Ints, may_be_half: bool) -> _Floats:
    """Predicted, low and high times of all-reduces, whose elements may have half of the size."""
    time_ns = ring_ns(network, ranks, size_bytes.astype(np.float64))
    low_ns = ring_ns(network, ranks, size_bytes / 2) if may_be_half else time_ns
    return np.stack([time_ns, low_ns * (1 - RING_DOUBT), time_ns * (1 + RING_DOUBT)])


def ring_latency(network: Ring, ranks: int) -> float:
    """What of the time of an all-reduce depends on no size."""
    return float(ring_ns(network, ranks, np.zeros(1))[0])


def with_collectives(graph: DependencyGraph, added: NewCollectives, time_ns: _Floats) -> DependencyGraph:
    """The graph with the collectives, which take so long.

    As communication of traces each is part of a thread or stream, which waits until the transfer is over.
    """
    count, ends = len(added.behind), graph.moment_of[added.behind, Point.END].astype(np.int64)
    starts = len(graph.moments) + moment(np.arange(count, dtype=np.int64), Point.START)
    activity = graph.activities.height + np.arange(count)
    own = graph.activities[pl.Series(added.behind)]
    on_device = own.get_column("stream").is_not_null().to_numpy()
    order = np.where(on_device, EdgeKind.STREAM_ORDER, EdgeKind.HOST).astype(np.uint8)
    inside = np.where(on_device, EdgeKind.DEVICE, EdgeKind.HOST).astype(np.uint8)
    nothing = np.zeros(count, dtype=np.int64)
    rows = own.select(
        *("rank", "op_event", "op", "stream", "lane", "step", "end_ns"),
        pl.col("end_ns").alias("start_ns"),
    ).with_columns(
        name=pl.lit(added.name),
        kind=pl.lit(ActivityKind.COMMUNICATION.value),
        group=pl.lit(added.group),
        type=pl.lit(CollectiveType.ALL_REDUCE.value),
        size_bytes=pl.Series(added.size_bytes),
    )
    edges = [
        EdgeList(starts, starts + 1, nothing, inside, activity),
        EdgeList.of(starts, starts + 1, EdgeKind.TRANSFER, activity, whole_ns(time_ns)),
    ]
    leaving = np.zeros(len(graph.edges), dtype=np.bool_)
    if added.until is None:
        number = np.full(len(graph.moments), -1)
        number[ends] = np.arange(count)
        leaving = number[graph.edges.before] >= 0
        moved = edge_list(graph)[leaving]
        moved.before[:] = starts[number[moved.before]] + 1
        edges += [moved, EdgeList(ends, starts, nothing, order, activity)]
    else:
        begins = np.where(on_device, EdgeKind.EVENT_WAIT, EdgeKind.THREAD).astype(np.uint8)
        awaited = np.where(on_device, EdgeKind.EVENT_WAIT, EdgeKind.COMMUNICATION_WAIT).astype(np.uint8)
        rank = own.get_column("rank").to_numpy()
        next_of = np.flatnonzero(rank[1:] == rank[:-1]) + 1
        edges += [
            EdgeList(ends, starts, nothing, begins, activity),
            EdgeList(starts + 1, added.until, nothing, awaited, activity),
            EdgeList(
                starts[next_of - 1] + 1, starts[next_of], nothing[next_of], order[next_of], activity[next_of]
            ),
        ]
        queue = graph.activities.select(pl.col("stream").max().over("rank") + 1).to_series()
        rows = rows.with_columns(
            pl.when(pl.Series(on_device)).then(queue.gather(pl.Series(added.behind))).alias("stream"),
            pl.lit(None, dtype=pl.Int64).alias("lane"),
        )
    more = with_activities(without_edges(graph, leaving), rows)
    latency = np.r_[said_latency(graph), np.full(count, added.latency_ns)]
    return with_edges(replace(more, latency_ns=latency), EdgeList.joined(edges))
