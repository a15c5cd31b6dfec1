"""How long does each member of a collective wait, for whom, and how long does it transfer?

A member's duration is waiting, transfer and rest, exactly:

- waiting: from its arrival until the last of those has arrived from which it receives;
- rest: of a member that only sends, the time until the first receiver has arrived. It may wait, or fill buffers;
- transfer: what remains.

A member of no duration is damaged, and never the shortest.

Who sends and who receives: see `roles`.
"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers.clock_widths import clock_width, with_clocks
from tracebraid.analysis.collectives.transfers.roles import with_roles
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.collectives.transfer_method import TransferMethod
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["waits"]

_SENDS, _RECEIVES = pl.col("_sends"), pl.col("_receives")
_ARRIVAL, _END, _DURATION = pl.col("arrival_ns"), pl.col("end_ns"), pl.col("dur_ns")


def waits(ranks: LinkedRanks) -> pl.DataFrame:
    """One row per member, in the order of `ranks.members`.

    Columns:
        rank, event_id, collective, step, type: as in `MEMBERS`.
        arrival_ns, end_ns: start and end on aligned clocks; the end is never before the start.
        dur_ns: their distance; waiting_ns + transfer_ns + rest_ns, where a null counts as 0.
        waiting_ns: null where nobody from whom it receives is there; too small where `is_bound`.
        transfer_ns: an upper bound where `is_bound`.
        rest_ns: see above.
        late_by_ns: its arrival after the first; by durations where the method is `SHORTEST_MEMBER`.
        waited_for: the rank whose arrival ended its waiting; null: it did not wait, or that rank is unknown.
        method: `TransferMethod`, the same for all members of a collective.
        is_bound: a rank is missing, which may have come later; null: unknown whether all are there.
        clock_width_ns: how far the members' clocks may be apart from what is assumed; null: unknown.
    """
    return ranks.derived(_waits_of)


def _waits_of(ranks: LinkedRanks) -> pl.DataFrame:
    members = with_roles(_members(ranks))
    found = members.join(_by_collective(members), on="_key", how="left", maintain_order="left")
    by_clock = pl.col("method") == TransferMethod.LAST_ARRIVAL.value
    by_shortest = pl.col("method") == TransferMethod.SHORTEST_MEMBER.value
    beyond_shortest = (_DURATION - pl.col("_shortest_ns")).clip(0)
    before_senders = (pl.col("_last_sender_ns") - _ARRIVAL).clip(0, _DURATION)
    before_receivers = (pl.col("_first_receiver_ns") - _ARRIVAL).clip(0, _DURATION)
    waiting = pl.when(by_clock).then(before_senders).when(by_shortest).then(beyond_shortest)
    rest = pl.when(by_clock).then(before_receivers).when(by_shortest).then(beyond_shortest)
    only_sends = ~_RECEIVES.fill_null(value=True)
    no_waiting = only_sends | (pl.col("_group_size") == 1)
    sender = pl.when(by_clock).then("_last_sender").otherwise("_shortest_sender")
    return (
        found.with_columns(
            pl.when(no_waiting).then(pl.lit(0)).otherwise(waiting).cast(pl.Int64).alias("waiting_ns"),
            pl.when(only_sends).then(rest).fill_null(0).cast(pl.Int64).alias("rest_ns"),
            pl.when(by_shortest)
            .then(pl.col("_longest_ns") - _DURATION)
            .otherwise(_ARRIVAL - pl.col("_first_ns"))
            .alias("late_by_ns"),
        )
        .with_columns(
            (_DURATION - pl.col("waiting_ns").fill_null(0) - pl.col("rest_ns")).alias("transfer_ns"),
            pl.when((pl.col("waiting_ns") > 0) & (sender != pl.col("rank"))).then(sender).alias("waited_for"),
        )
        .select(
            *("rank", "event_id", "collective", "step", "type", "arrival_ns", "end_ns", "dur_ns"),
            *("waiting_ns", "transfer_ns", "rest_ns", "late_by_ns", "waited_for"),
            *("method", "is_bound", "clock_width_ns"),
        )
    )


def _members(ranks: LinkedRanks) -> pl.DataFrame:
    """The members with times and clocks; `_key` is of the collective, or of a member that is not matched."""
    complete = pl.coalesce(
        pl.col("missing").list.len() == 0, pl.col("ranks").list.len() >= pl.col("group_size")
    )
    collectives = ranks.collectives.select(
        "collective", pl.col("group_size").alias("_size"), complete.alias("_complete")
    )
    end = pl.max_horizontal("start_ns", "end_ns")
    members = (
        ranks.members.with_row_index("_row")
        .join(collectives, on="collective", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("collective", -1 - pl.col("_row").cast(pl.Int64)).alias("_key"),
            pl.coalesce("_size", "group_size").alias("group_size"),
            pl.col("start_ns").alias("arrival_ns"),
            end.alias("end_ns"),
            (end - pl.col("start_ns")).alias("dur_ns"),
        )
    )
    return with_clocks(members, ranks)


def _by_collective(members: pl.DataFrame) -> pl.DataFrame:
    """A row for each collective: its first and last moments, `method`, `is_bound` and `clock_width_ns`."""
    senders = members.filter(_SENDS)
    arrived = senders.sort("arrival_ns", "rank", descending=[False, True])
    fast = senders.filter(_DURATION > 0).sort("dur_ns", "rank", descending=True)
    every = members.group_by("_key").agg(
        _ARRIVAL.min().alias("_first_ns"),
        _DURATION.filter(_DURATION > 0).min().fill_null(0).alias("_shortest_ns"),
        _DURATION.max().alias("_longest_ns"),
        _ARRIVAL.filter(_RECEIVES).min().alias("_first_receiver_ns"),
        _END.filter(_RECEIVES).min().alias("_first_end_ns"),
        pl.len().alias("_members"),
        _SENDS.is_null().any().alias("_no_root"),
        ((pl.col("type") == CollectiveType.SEND.value).any() & _RECEIVES.any()).alias("_is_pair"),
        pl.col("group_size").max().alias("_group_size"),
        pl.col("_complete").first(),
        clock_width().alias("clock_width_ns"),
    )
    last = arrived.group_by("_key").agg(
        _ARRIVAL.max().alias("_last_sender_ns"),
        pl.col("rank").last().alias("_last_sender"),
    )
    shortest = fast.group_by("_key").agg(pl.col("rank").last().alias("_shortest_sender"))
    return (
        every.join(last, on="_key", how="left")
        .join(shortest, on="_key", how="left")
        .with_columns(_method().alias("method"))
        .with_columns(_is_bound().alias("is_bound"))
    )


def _method() -> pl.Expr:
    lacks_half = pl.col("_last_sender_ns").is_null() | pl.col("_first_receiver_ns").is_null()
    is_known = pl.col("clock_width_ns") <= pl.col("_shortest_ns")
    in_order = pl.col("_first_end_ns") >= pl.col("_last_sender_ns")
    return (
        pl.when((pl.col("_members") == 1) | (lacks_half & ~pl.col("_no_root")))
        .then(pl.lit(TransferMethod.DURATION.value))
        .when(is_known & in_order & ~pl.col("_no_root"))
        .then(pl.lit(TransferMethod.LAST_ARRIVAL.value))
        .otherwise(pl.lit(TransferMethod.SHORTEST_MEMBER.value))
    )


def _is_bound() -> pl.Expr:
    alone = pl.col("_members") == 1
    return (
        pl.when(pl.col("_is_pair"))
        .then(pl.lit(value=False))
        .when(alone)
        .then(pl.col("_group_size") != 1)
        .when(pl.col("method") == TransferMethod.DURATION.value)
        .then(pl.lit(value=True))
        .otherwise(~pl.col("_complete"))
    )
