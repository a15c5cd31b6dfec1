"""Collectives over ranks: the transfer starts when the last member has arrived."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.joining.communication import with_communication
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.graph import ACTIVITIES

__all__ = ["Joined", "joined_by_collectives"]

_Ints = NDArray[np.int64]

_DURING = (EdgeKind.DEVICE, EdgeKind.HOST)
"""Edges that lead through a member: on a device, or on the host."""


@dataclass(frozen=True, eq=False)
class Joined:
    """The parts of all ranks as one graph that is not in order yet.

    Args:
        activities: `ACTIVITIES`, on aligned clocks.
        times_ns: of each moment, on aligned clocks.
        edges: in any order.
    """

    activities: pl.DataFrame
    times_ns: _Ints
    edges: EdgeList


def joined_by_collectives(alone: Joined, ranks: LinkedRanks) -> Joined:
    """The graph with an activity for each matched collective, which its members wait for.

    From the start of each member to that of the collective, from there to the end of each member, with the time from
    the last arrival to its end as work, and from the ends of members to that of the collective.

    Args:
        alone: the ranks' parts side by side.
        ranks: the ranks, linked with each other.
    """
    alone = replace(alone, activities=with_communication(alone.activities, ranks))
    members = _members(alone, ranks)
    if members.is_empty():
        return alone
    own = members.get_column("activity").to_numpy()
    number = members.get_column("number").to_numpy()
    count = int(number[-1]) + 1
    collective = alone.activities.height + np.arange(count)
    starts, ends = (alone.times_ns[moment(own, point)] for point in (Point.START, Point.END))
    times = np.full(2 * count, np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(times, 2 * number, starts)
    np.maximum.at(times, 2 * number + 1, ends)
    transfer = ends - times[2 * number]
    possible = transfer >= 0
    whole = collective[number]
    arrivals = EdgeList.of(moment(own, Point.START), moment(whole, Point.START), EdgeKind.ARRIVAL, whole)
    transfers = EdgeList.of(
        moment(whole, Point.START), moment(own, Point.END), EdgeKind.TRANSFER, own, transfer
    )
    done = EdgeList.of(moment(own, Point.END), moment(whole, Point.END), EdgeKind.ARRIVAL, whole)
    edges = replace(alone.edges, work_ns=_without_waiting(alone.edges, own[possible]))
    return Joined(
        pl.concat([alone.activities, _collectives(members, times)]),
        np.concatenate([alone.times_ns, times]),
        EdgeList.joined([edges, arrivals, transfers[possible], done]),
    )


def _members(alone: Joined, ranks: LinkedRanks) -> pl.DataFrame:
    """The members that were matched with another's, with the activity of each, by `number` of their collective."""
    activities = alone.activities.select("rank", "event_id", "size_bytes").with_row_index("activity")
    activities = alone.activities.select("rank", "event_id", as_text("kind")).with_row_index("activity")
    activities = alone.activities.select("rank", "event_id", "size_bytes", as_text("kind")).with_row_index(
        "activity"
    )
    activities = activities.filter(pl.col("kind") == ActivityKind.COMMUNICATION.value).drop("kind")
    matched = ranks.members.filter(pl.col("collective").is_not_null())
    matched = matched.filter(pl.len().over("collective") > 1)
    found = matched.join(activities, on=["rank", "event_id"], how="inner", maintain_order="left")
    found = found.with_columns(pl.col("size_bytes").max().over("collective"))
    return found.sort("collective", "rank", maintain_order=True).with_columns(
        pl.col("activity").cast(pl.Int64),
        number=pl.col("collective").rank("dense").cast(pl.Int64) - 1,
    )


def _without_waiting(edges: EdgeList, members: _Ints) -> _Ints:
    """The work of edges, of which those of members from start to end have none: they wait, then transfer."""
    is_member = np.zeros(
        int(max(edges.activity.max(initial=-1), members.max(initial=-1))) + 1, dtype=np.bool_
    )
    is_member[members] = True
    return np.where(is_member[edges.activity] & np.isin(edges.kind, _DURING), 0, edges.work_ns)


def _collectives(members: pl.DataFrame, times_ns: _Ints) -> pl.DataFrame:
    rows = members.unique("number", keep="first", maintain_order=True).select(
        pl.lit(ActivityKind.COLLECTIVE.value).alias("kind"),
        pl.col("type").alias("name"),
        "group",
        "collective",
        "size_bytes",
        "step",
        pl.Series("start_ns", times_ns[::2]),
        pl.Series("end_ns", times_ns[1::2]),
    )
    return ACTIVITIES.conform(rows, fill_missing=True)
