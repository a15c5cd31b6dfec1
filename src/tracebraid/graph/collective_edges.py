"""Collectives in a dependency graph: the activities that are communication, and the edges between its members."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.collectives.bandwidth import size_of
from tracebraid.analysis.collectives.transfers import members_with_waits, with_roles
from tracebraid.analysis.collectives.transfers import waits as waits_of_ranks
from tracebraid.model.collectives import SAME_CLOCK_NS, is_between_two, is_pair_on_host
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import ActivityKind, EdgeKind, EdgeList, Point
from tracebraid.model.graph import moment as moment_number
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import ACTIVITIES

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

LEAST_CONFIDENCE = 0.5
"""Members that were matched with less are not joined: below it, another match is as likely."""
_KEY = ["rank", "event_id"]


def with_communication(activities: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """Activities, of which those of `MEMBERS` are communication, with its group, collective and bytes."""
    if ranks.members.is_empty():
        return activities
    most = [pl.col(name).max().over("collective") for name in ("in_bytes", "out_bytes")]
    size = members_with_waits(ranks).with_columns(
        pl.when(pl.col("collective").is_not_null()).then(whole).otherwise(pl.col(name)).alias(name)
        for name, whole in zip(("in_bytes", "out_bytes"), most, strict=True)
    )
    members = size.select(
        *_KEY,
        "group",
        pl.col("type").cast(pl.Categorical()),
        "collective",
        size_of().alias("size_bytes"),
        pl.lit(ActivityKind.COMMUNICATION.value).cast(pl.Categorical()).alias("kind"),
    ).unique(_KEY, keep="first", maintain_order=True)
    rows = activities.select(_KEY).with_row_index("_row").join(members, on=_KEY, how="inner")
    # Column by column: joined to all activities, these would be copied as a whole.
    member = np.full(activities.height, -1, dtype=np.int64)
    member[rows.get_column("_row").to_numpy()] = np.arange(rows.height)
    is_member = pl.Series(member >= 0)
    if rows.is_empty():
        return activities
    values = rows.select("kind", "group", "type", "collective", "size_bytes")[np.maximum(member, 0)]
    known = [pl.when(is_member).then(values.get_column(name)).alias(name) for name in values.columns]
    found = [
        pl.coalesce(value, name).alias(name) if name in ("kind", "size_bytes") else value
        for name, value in zip(values.columns, known, strict=True)
    ]
    return ACTIVITIES.conform(activities.with_columns(found))


def matched_members(activities: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """A row for each member that was matched with another rank's, by collective and rank.

    Of several members of a rank in one collective on one stream the last is taken: the rank has arrived with it.

    Columns:
        activity: row of the activities.
        collective, rank, type, group, step: as in `MEMBERS`.
        size_bytes: as in `ACTIVITIES`.
        sends, receives: whether it does; both where its root is unknown.
        tolerance_ns: tolerance for contradictory times of its members: larger where a host backend recorded
            the start of a send later than its issue.
        issuer: where a host backend recorded its start later than its issue: row of the op that issued it; else its
            own.
        confidence: of the match.
        is_bound: whether a rank is missing, which may have arrived later.
    """
    given = waits_of_ranks(ranks).select("clock_width_ns", "is_bound")
    recorded_late = pl.when(is_pair_on_host()).then(pl.col("start_ns") - pl.col("issued_ns"))
    late = recorded_late.max().over("collective").fill_null(0).clip(0)
    roles = with_roles(
        ranks.members.with_row_index("_row")
        .hstack(given)
        .with_columns(pl.coalesce("collective", -1 - pl.col("_row").cast(pl.Int64)).alias("_key"))
    )
    matched = (
        roles.filter(pl.col("collective").is_not_null())
        .join(ranks.collectives.select("collective", "confidence"), on="collective", how="left")
        .select(
            *("rank", "event_id", "collective", "type", "step", "confidence", "start_ns", "stream"),
            pl.col("_sends").fill_null(value=True).alias("sends"),
            pl.col("_receives").fill_null(value=True).alias("receives"),
            (pl.col("clock_width_ns").fill_null(0) + SAME_CLOCK_NS + late).alias("tolerance_ns"),
            recorded_late.fill_null(0).clip(0).alias("late_ns"),
            pl.col("is_bound").fill_null(value=True),
        )
    )
    numbered = activities.select("rank", "event_id", "size_bytes").with_row_index("activity")
    found = _with_issuer(numbered.join(matched, on=["rank", "event_id"], how="inner"), activities)
    groups = ranks.collectives.select("collective", "group")
    return (
        found.with_columns(pl.col("activity", "issuer").cast(pl.Int64))
        .sort("collective", "rank", "start_ns", "activity")
        .unique(["collective", "rank", "stream"], keep="last", maintain_order=True)
        .join(groups, on="collective", how="left", maintain_order="left")
        .drop("start_ns", "stream", "event_id", "late_ns")
    )


def _with_issuer(members: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """The members with the outermost op that began when they were issued, if that is before their start."""
    late = members.filter(pl.col("late_ns") > 0)
    if late.is_empty():
        return members.with_columns(pl.col("activity").alias("issuer"))
    at_ns = activities.get_column("start_ns")[late.get_column("activity")] - late.get_column("late_ns")
    ops = activities.select("rank", at_ns="start_ns", issuer=pl.int_range(pl.len(), dtype=pl.UInt32))
    ops = ops.filter(activities.get_column("kind") == ActivityKind.OP.value)
    issued = late.select("activity", "rank", at_ns=at_ns).join(ops, on=["rank", "at_ns"], how="inner")
    outermost = issued.group_by("activity").agg(pl.col("issuer").min())
    found = members.join(outermost, on="activity", how="left", maintain_order="left")
    return found.with_columns(pl.col("issuer").fill_null(pl.col("activity")))


class Arrivals(Struct, frozen=True, eq=False):
    """The members of collectives that can have happened as their times say, by collective.

    Args:
        members: rows of `matched_members`, with `number`, of the collective, from 0 up, and `arriving`, the row of the
            activity with whose start the member arrives.
        arrives: of each member, whether others wait for its start.
        waits: of each member, whether its end waits for the last arrival.
        arrival_ns: of each collective, the last arrival.
        contradicted: the collectives that are left out: a member ended before another had arrived.
        clamped: members that ended before the last arrival by less than clocks may err; they do not wait.
    """

    members: pl.DataFrame
    arrives: _Flags
    waits: _Flags
    arrival_ns: _Ints
    contradicted: _Ints
    clamped: int


def arrivals(members: pl.DataFrame, times_ns: _Ints) -> Arrivals:
    """Arrivals and waits of members.

    Where no member ended before all had started, all wait for all. Else those that only receive wait for those that
    send: the root of a broadcast, or an eager send, may end before a receiver has started.
    """
    known = _judged(_numbered(members), times_ns)
    beyond = known.get_column("beyond_ns").to_numpy() > known.get_column("tolerance_ns").to_numpy()
    # A member without duration was damaged, and contradicts all that come later.
    damaged = beyond & (known.get_column("end_ns") <= known.get_column("start_ns")).to_numpy()
    if damaged.any():
        known = _judged(_numbered(known.filter(~pl.Series(damaged)).select(members.columns)), times_ns)
        beyond = known.get_column("beyond_ns").to_numpy() > known.get_column("tolerance_ns").to_numpy()
    contradicted = known.filter(pl.Series(beyond)).get_column("collective").unique().sort().to_numpy()
    known = _judged(_numbered(known.filter(~pl.Series(beyond)).select(members.columns)), times_ns)
    arrival = known.get_column("arrival_ns").to_numpy()
    waits = known.get_column("waits").to_numpy()
    late = waits & (known.get_column("end_ns").to_numpy() < arrival)
    first = np.flatnonzero(np.diff(known.get_column("number").to_numpy(), prepend=-1))
    return Arrivals(
        known,
        known.get_column("arrives").to_numpy(),
        waits & ~late,
        arrival[first],
        contradicted,
        int(late.sum()),
    )


def _numbered(members: pl.DataFrame) -> pl.DataFrame:
    """Members of collectives with at least two known members, numbered consecutively."""
    found = members.filter(pl.len().over("collective") > 1)
    return found.with_columns(number=pl.col("collective").rank("dense").cast(pl.Int64) - 1)


def _judged(members: pl.DataFrame, times_ns: _Ints) -> pl.DataFrame:
    """Add the times of each member, whether it arrives and waits, and its collective's last arrival, and
    `beyond_ns`, by how much that is later than the end of one that waits for it.

    A send whose start was recorded after it was received arrived with the op that issued it.
    """
    own = members.get_column("activity").to_numpy()
    start, end = pl.col("start_ns"), pl.col("end_ns")
    timed = members.with_columns(
        pl.Series("start_ns", times_ns[2 * own], dtype=pl.Int64),
        pl.Series("end_ns", times_ns[2 * own + 1], dtype=pl.Int64),
    )
    both = (end.min() >= start.max()).over("number")
    # Without one that sends, or one that receives, roles say nothing.
    of_all = both | ~(pl.col("sends").any() & pl.col("receives").any()).over("number")
    timed = timed.with_columns(arrives=of_all | pl.col("sends"), waits=of_all | pl.col("receives"))
    received_before = start > end.filter("waits").min().over("number")
    timed = timed.with_columns(arriving=pl.when(received_before).then("issuer").otherwise("activity"))
    given = pl.Series("given_ns", times_ns[2 * timed.get_column("arriving").to_numpy()], dtype=pl.Int64)
    arrival = pl.col("given_ns").filter("arrives").max()
    return timed.with_columns(given).with_columns(
        arrival.over("number").alias("arrival_ns"),
        (arrival - end.filter("waits").min()).over("number").alias("beyond_ns"),
    )


class Collectives(Struct, frozen=True, eq=False):
    """Activities and edges that collectives add to all ranks.

    Args:
        activities: `ACTIVITIES` of the collectives, which follow those of the ranks.
        times_ns: of their moments.
        edges: between members and collectives.
        waiting: the members that wait, by their activities.
        until_ns: of each of these, until when its own thread or stream waits, if it has come by then.
        findings: dropped and unknown collectives.
    """

    activities: pl.DataFrame
    times_ns: _Ints
    edges: EdgeList
    waiting: _Ints
    until_ns: _Ints
    findings: tuple[Finding, ...]


def collective_edges(
    activities: pl.DataFrame, times_ns: _Ints, before_end: _Ints, ranks: LinkedRanks
) -> Collectives:
    """Build an activity for each collective of several members, with the dependencies of members.

    A collective starts when the last of those has arrived that others wait for. A member that waits ends then, or
    later by its own transfer: the time from the last arrival, or its own if that is later, to its end. A backend of
    the host notes the end of a send or receive when the thread that asked for it comes to wait for it: both are over
    when the first of the two is noted, and a thread that comes later has not waited. The collective ends with the
    last member.
    """
    members = matched_members(activities, ranks)
    joinable = before_end >= 0
    members = members.filter(pl.Series(joinable[members.get_column("activity").to_numpy()]))
    doubtful = pl.col("confidence") < LEAST_CONFIDENCE
    found = arrivals(members.filter(~doubtful), times_ns)
    known = found.members
    own, number = (known.get_column(name).to_numpy() for name in ("activity", "number"))
    collective = activities.height + number
    starts, ends = (times_ns[moment_number(own, point)] for point in (Point.START, Point.END))
    times = np.empty(2 * len(found.arrival_ns), dtype=np.int64)
    times[::2] = times[1::2] = found.arrival_ns
    np.maximum.at(times, 2 * number + 1, ends)
    arrival_ns = found.arrival_ns[number]
    over_ns = np.full(len(found.arrival_ns), np.iinfo(np.int64).max)
    np.minimum.at(over_ns, number, ends)
    # A pair of the host: its thread has waited only if it came before the first of the two was noted.
    on_host = activities.get_column("stream").is_null().to_numpy()
    paired = known.select(is_between_two()).to_series().to_numpy() & on_host[own]
    resumed_late = paired & (times_ns[before_end[own]] >= over_ns[number])
    done_ns = np.where(resumed_late, over_ns[number], ends)
    until_ns = np.where(paired, np.maximum(over_ns[number] - 1, arrival_ns), arrival_ns)
    return Collectives(
        _activities(known, times),
        times,
        _edges(found, (own, collective), np.maximum(done_ns - np.maximum(starts, arrival_ns), 0)).packed(),
        own[found.waits],
        until_ns[found.waits],
        _findings(found, members.filter(doubtful), _alone(activities, joinable, ranks)),
    )


def _edges(found: Arrivals, numbers: tuple[_Ints, _Ints], transfer_ns: _Ints) -> EdgeList:
    own, whole = numbers
    arrives, waits = found.arrives, found.waits
    arriving = found.members.get_column("arriving").to_numpy()
    return EdgeList.joined(
        [
            EdgeList.of(
                moment_number(arriving[arrives], Point.START),
                moment_number(whole[arrives], Point.START),
                EdgeKind.ARRIVAL,
                whole[arrives],
            ),
            EdgeList.of(
                moment_number(whole[waits], Point.START),
                moment_number(own[waits], Point.END),
                EdgeKind.TRANSFER,
                own[waits],
                transfer_ns[waits],
            ),
            EdgeList.of(
                moment_number(own, Point.END), moment_number(whole, Point.END), EdgeKind.ARRIVAL, whole
            ),
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
    """Return how many members were matched with no other rank's, of groups that are not known to have a single rank."""
    found = ranks.members.select("rank", "event_id", "collective").hstack(
        waits_of_ranks(ranks).select("is_bound")
    )
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
