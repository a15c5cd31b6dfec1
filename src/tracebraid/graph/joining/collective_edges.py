"""Collectives over ranks: the transfer starts when the last member has arrived."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.graph.joining.arrivals import Arrivals, arrivals
from tracebraid.graph.joining.members import LEAST_CONFIDENCE, matched_members
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.graph import ACTIVITIES

__all__ = ["Collectives", "collective_edges"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Collectives:
    """What collectives add to the parts of all ranks.

    Args:
        activities: `ACTIVITIES` of the collectives, which go behind those of the ranks.
        times_ns: of their moments.
        edges: between members and collectives.
        waiting: the members that wait, by their activities.
        arrival_ns: of each of these, the last arrival that it waits for.
        findings: what was left out, or is not known.
    """

    activities: pl.DataFrame
    times_ns: _Ints
    edges: EdgeList
    waiting: _Ints
    arrival_ns: _Ints
    findings: tuple[Finding, ...]


def collective_edges(
    activities: pl.DataFrame, times_ns: _Ints, joinable: NDArray[np.bool_], ranks: LinkedRanks
) -> Collectives:
    """An activity for each collective of several members, and what they and their members wait for.

    A collective starts when the last of those has arrived that others wait for. A member that waits ends then, or
    later by its own transfer: the time from the last arrival, or its own if that is later, to its end. The collective
    ends with the last member.

    Args:
        activities: `ACTIVITIES` of all ranks.
        times_ns: of each of their moments, on aligned clocks.
        joinable: of each activity; others are not joined: they are not in the chosen steps.
        ranks: the ranks, linked with each other.
    """
    members = matched_members(activities, ranks)
    members = members.filter(pl.Series(joinable[members.get_column("activity").to_numpy()]))
    doubtful = pl.col("confidence") < LEAST_CONFIDENCE
    found = arrivals(members.filter(~doubtful), times_ns)
    known = found.members
    own, number = (known.get_column(name).to_numpy() for name in ("activity", "number"))
    collective = activities.height + number
    starts, ends = (times_ns[moment(own, point)] for point in (Point.START, Point.END))
    times = np.empty(2 * len(found.arrival_ns), dtype=np.int64)
    times[::2] = times[1::2] = found.arrival_ns
    np.maximum.at(times, 2 * number + 1, ends)
    return Collectives(
        _activities(known, times),
        times,
        _edges(found, (own, collective), ends - np.maximum(starts, found.arrival_ns[number])).packed(),
        own[found.waits],
        found.arrival_ns[number[found.waits]],
        _findings(found, members.filter(doubtful), _alone(activities, joinable, ranks)),
    )


def _edges(found: Arrivals, numbers: tuple[_Ints, _Ints], transfer_ns: _Ints) -> EdgeList:
    own, whole = numbers
    arrives, waits = found.arrives, found.waits
    return EdgeList.joined(
        [
            EdgeList.of(
                moment(own[arrives], Point.START),
                moment(whole[arrives], Point.START),
                EdgeKind.ARRIVAL,
                whole[arrives],
            ),
            EdgeList.of(
                moment(whole[waits], Point.START),
                moment(own[waits], Point.END),
                EdgeKind.TRANSFER,
                own[waits],
                transfer_ns[waits],
            ),
            EdgeList.of(moment(own, Point.END), moment(whole, Point.END), EdgeKind.ARRIVAL, whole),
        ]
    )


def _activities(members: pl.DataFrame, times_ns: _Ints) -> pl.DataFrame:
    rows = members.unique("number", keep="first", maintain_order=True).select(
        pl.lit(ActivityKind.COLLECTIVE.value).alias("kind"),
        pl.col("type").alias("name"),
        "group",
        "collective",
        "size_bytes",
        "step",
        pl.Series("start_ns", times_ns[::2], dtype=pl.Int64),
        pl.Series("end_ns", times_ns[1::2], dtype=pl.Int64),
    )
    return ACTIVITIES.conform(rows, fill_missing=True)


def _alone(activities: pl.DataFrame, joinable: NDArray[np.bool_], ranks: LinkedRanks) -> int:
    """How many members were matched with no other rank's, of groups that are not known to have a single rank."""
    found = ranks.members.select("rank", "event_id", "collective").hstack(waits(ranks).select("is_bound"))
    found = found.filter(pl.col("collective").is_null() & pl.col("is_bound").fill_null(value=True))
    joined = activities.select("rank", "event_id").filter(pl.Series(joinable))
    return joined.join(found, on=["rank", "event_id"], how="semi").height


def _findings(found: Arrivals, doubtful: pl.DataFrame, alone: int) -> tuple[Finding, ...]:
    bound = found.members.filter("is_bound").get_column("collective").n_unique() + alone
    uncertain = doubtful.get_column("collective").n_unique()
    counts = {
        FindingCode.GRAPH_COLLECTIVES_INCOMPLETE: bound,
        FindingCode.GRAPH_COLLECTIVES_CONTRADICTED: len(found.contradicted),
        FindingCode.GRAPH_COLLECTIVES_DOUBTFUL: uncertain,
        FindingCode.GRAPH_ARRIVALS_CLAMPED: found.clamped,
    }
    return tuple(Finding.of(code, count=count) for code, count in counts.items() if count)
