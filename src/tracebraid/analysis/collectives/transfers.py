"""Arrival, wait and transfer times of each rank in a collective, on aligned clocks."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.bandwidth import algorithm_rate, bus_rate, size_of
from tracebraid.analysis.statistics import max_of, mean_of, median_of, min_of, p95_of, std_of, sum_of
from tracebraid.model.analysis import Family, Need, OnPage, Rows, job_analysis
from tracebraid.model.answers.job import (
    COLLECTIVE_BANDWIDTH,
    COLLECTIVE_RANKS,
    COLLECTIVE_TOTALS,
    COLLECTIVES,
)
from tracebraid.model.collectives import (
    BETWEEN_TWO,
    PAIRED,
    USUAL_DRIFT_PPM,
    ClockMethod,
    CollectiveType,
    TransferMethod,
    has_peer,
    is_pair_on_host,
    peers_listed,
)
from tracebraid.model.linked_ranks import LinkedRanks


def with_clocks(members: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """The members with the clock of each: `_host`, and `_width_ns`, its interval at `arrival_ns`; null: unknown."""
    drift = (pl.col("drift_high_ppm") - pl.col("drift_low_ppm")).fill_null(2 * USUAL_DRIFT_PPM) / 1e6
    clocks = ranks.clocks.select(
        "rank",
        pl.col("host").alias("_host"),
        pl.col("at_ns").alias("_at"),
        drift.alias("_drift"),
        pl.when(pl.col("method") == ClockMethod.REFERENCE.value)
        .then(pl.lit(0))
        .otherwise(pl.col("offset_high_ns") - pl.col("offset_low_ns"))
        .alias("_interval"),
    )
    since = (pl.col("arrival_ns") - pl.col("_at")).abs().fill_null(0)
    grown = pl.col("_interval") + (since * pl.col("_drift")).fill_null(0.0).round().cast(pl.Int64)
    return (
        members.join(clocks, on="rank", how="left", maintain_order="left")
        .with_columns(grown.alias("_width_ns"))
        .drop("_at", "_drift", "_interval")
    )


def clock_width() -> pl.Expr:
    """Clock uncertainty between the members of a collective; null: unknown.

    Members of one host share a clock. Else it is the widest of their intervals.
    """
    host, width = pl.col("_host"), pl.col("_width_ns")
    is_shared = ((host.null_count() == 0) & (host.n_unique() == 1)) | (pl.col("rank").n_unique() == 1)
    return pl.when(is_shared).then(pl.lit(0)).when(width.null_count() == 0).then(width.max()).cast(pl.Int64)


_FROM_ROOT = (CollectiveType.BROADCAST.value, CollectiveType.SCATTER.value)
_TO_ROOT = (CollectiveType.REDUCE.value, CollectiveType.GATHER.value)


def with_roles(members: pl.DataFrame) -> pl.DataFrame:
    """Add `_sends` and `_receives`; null if the root is unknown.

    All members of an all-reduce, all-gather, reduce-scatter, all-to-all, barrier or exchange send and receive; of
    several sends and receives in a kernel, those that are among them. Of a broadcast and a scatter the root sends and
    the others receive; of a reduce and a gather it is the other way round.
    """
    kind = pl.col("type")
    root = (
        pl.when(kind.is_in(_FROM_ROOT))
        .then("source")
        .when(kind.is_in(_TO_ROOT))
        .then(pl.coalesce("destination", "source"))
    )
    roots = (
        members.select("_key", root.alias("_root"))
        .drop_nulls()
        .unique("_key", keep="first", maintain_order=True)
    )
    is_root = pl.col("rank") == pl.col("_root")
    return members.join(roots, on="_key", how="left", maintain_order="left").with_columns(
        _role(is_root, ~is_root, CollectiveType.SEND, CollectiveType.RECEIVE).alias("_sends"),
        _role(~is_root, is_root, CollectiveType.RECEIVE, CollectiveType.SEND).alias("_receives"),
    )


def _role(from_root: pl.Expr, to_root: pl.Expr, own: CollectiveType, other: CollectiveType) -> pl.Expr:
    kind = pl.col("type")
    return (
        pl.when(kind.is_in(_FROM_ROOT))
        .then(from_root)
        .when(kind.is_in(_TO_ROOT))
        .then(to_root)
        .when(pl.col("peers").is_not_null())
        .then(has_peer(own))
        .otherwise((kind != other.value).fill_null(value=True))
    )


_SENDS = pl.col("_sends")
_RECEIVES = pl.col("_receives")
_ARRIVAL = pl.col("arrival_ns")
_END = pl.col("end_ns")
_DURATION = pl.col("dur_ns")


def waits(ranks: LinkedRanks) -> pl.DataFrame:
    """One row per member, in the order of `ranks.members`.

    Columns:
        rank, event_id, collective, step, type: as in `MEMBERS`.
        arrival_ns, end_ns: start and end on aligned clocks; the end is never before the start.
        dur_ns: their distance; waiting_ns + transfer_ns + rest_ns, where a null counts as 0.
        waiting_ns: null if no sender is known; a lower bound if `is_bound`.
        transfer_ns: an upper bound if `is_bound`.
        rest_ns: see above. All three are null of a send or receive that meets no other.
        late_by_ns: its arrival after the first; by durations where the method is `SHORTEST_MEMBER`.
        waited_for: the rank whose arrival ended its waiting; null: it did not wait, or that rank is unknown.
        method: `TransferMethod`, the same for all members of a collective.
        is_bound: a missing rank may have arrived later; null: unknown.
        clock_width_ns: uncertainty of the members' clock offsets; null: unknown.
    """
    return ranks.derived(_waits_of)


def _waits_of(ranks: LinkedRanks) -> pl.DataFrame:
    members = _with_senders(with_roles(_members(ranks)))
    found = members.join(_by_collective(members), on="_key", how="left", maintain_order="left")
    by_clock = pl.col("method") == TransferMethod.LAST_ARRIVAL.value
    by_shortest = pl.col("method") == TransferMethod.SHORTEST_MEMBER.value
    beyond_shortest = (_DURATION - pl.col("_shortest_ns")).clip(0)
    before_senders = (pl.col("_sender_ns") - _ARRIVAL).clip(0, _DURATION)
    before_receivers = (pl.col("_first_receiver_ns") - _ARRIVAL).clip(0, _DURATION)
    beyond_received = (_DURATION - pl.col("_received_ns")).clip(0)
    waiting = pl.when(by_clock).then(before_senders).when(by_shortest).then(beyond_shortest)
    rest = (
        pl.when(by_clock)
        .then(pl.coalesce(beyond_received, before_receivers))
        .when(by_shortest)
        .then(beyond_shortest)
    )
    only_sends = ~_RECEIVES.fill_null(value=True)
    no_waiting = only_sends | (pl.col("_group_size") == 1)
    sender = pl.when(by_clock).then("_sender").otherwise("_shortest_sender")
    unmet = _is_unmet()
    waiting = pl.when(~unmet & no_waiting).then(pl.lit(0)).when(~unmet).then(waiting)
    return (
        found.with_columns(
            waiting.cast(pl.Int64).alias("waiting_ns"),
            pl.when(~unmet).then(pl.when(only_sends).then(rest).fill_null(0)).cast(pl.Int64).alias("rest_ns"),
            pl.when(by_shortest)
            .then(pl.col("_longest_ns") - _DURATION)
            .otherwise(_ARRIVAL - pl.col("_first_ns"))
            .alias("late_by_ns"),
        )
        .with_columns(
            pl.when(~unmet)
            .then(_DURATION - pl.col("waiting_ns").fill_null(0) - pl.col("rest_ns"))
            .alias("transfer_ns"),
            pl.when((pl.col("waiting_ns") > 0) & (sender != pl.col("rank"))).then(sender).alias("waited_for"),
        )
        .select(
            *("rank", "event_id", "collective", "step", "type", "arrival_ns", "end_ns", "dur_ns"),
            *("waiting_ns", "transfer_ns", "rest_ns", "late_by_ns", "waited_for"),
            *("method", "is_bound", "clock_width_ns"),
        )
    )


def _is_unmet() -> pl.Expr:
    """Return whether a member is a send or a receive that meets no other: the parts of its time are unknown."""
    between_two = pl.col("type").is_in([kind.value for kind in BETWEEN_TWO]).fill_null(value=False)
    return between_two & (pl.col("_members") == 1) & (pl.col("_group_size") != 1).fill_null(value=True)


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
            is_pair_on_host().alias("_on_host"),
            pl.coalesce(pl.when(is_pair_on_host()).then("issued_ns"), "start_ns").alias("_given_ns"),
        )
    )
    return with_clocks(members, ranks)


def _with_senders(members: pl.DataFrame) -> pl.DataFrame:
    """The members with `_sender_ns` and `_sender`: when the last of those arrived that it receives from, and its rank.

    That is the last sender of the collective; where kernels of several sends and receives meet, the last of its peers.
    """
    senders = members.filter(_SENDS).sort("_given_ns", "rank", descending=[False, True])
    last = [pl.col("_given_ns").last().alias("_sender_ns"), pl.col("rank").last().alias("_sender")]
    found = members.join(senders.group_by("_key").agg(last), on="_key", how="left", maintain_order="left")
    of_peers = pl.col("peers").is_not_null().any().over("_key")
    exchanging = members.filter(_RECEIVES & of_peers)
    if exchanging.is_empty():
        return found
    listed, source = peers_listed(), pl.concat_list("source")
    received = listed.list.filter(pl.element().struct.field("type") == CollectiveType.RECEIVE.value)
    sources = received.list.eval(pl.element().struct.field("peer"))
    own = (
        exchanging.select(
            "_row", "_key", pl.when(pl.col("peers").is_null()).then(source).otherwise(sources).alias("rank")
        )
        .explode("rank")
        .join(
            senders.select("_key", "rank", "_given_ns"),
            on=["_key", "rank"],
            how="left",
            maintain_order="left",
        )
        .sort("_given_ns", "rank", descending=[False, True], nulls_last=False)
        .group_by("_row")
        .agg(last)
    )
    exact = members.select("_row").join(own, on="_row", how="left", maintain_order="left")
    is_exact = members.select((_RECEIVES & of_peers).fill_null(value=False).alias("exact")).to_series()
    return found.with_columns(
        pl.when(is_exact).then(exact.get_column(name)).otherwise(name).alias(name)
        for name in ("_sender_ns", "_sender")
    )


def _by_collective(members: pl.DataFrame) -> pl.DataFrame:
    """A row for each collective: its first and last moments, `method`, `is_bound` and `clock_width_ns`."""
    fast = members.filter(_SENDS & (_DURATION > 0)).sort("dur_ns", "rank", descending=True)
    every = members.group_by("_key").agg(
        _ARRIVAL.min().alias("_first_ns"),
        _DURATION.filter(_DURATION > 0).min().fill_null(0).alias("_shortest_ns"),
        _DURATION.max().alias("_longest_ns"),
        _ARRIVAL.filter(_RECEIVES).min().alias("_first_receiver_ns"),
        pl.col("_given_ns").filter(_SENDS).max().alias("_last_sender_ns"),
        (_END - pl.col("_sender_ns")).filter(_RECEIVES).min().alias("_behind_sender_ns"),
        pl.len().alias("_members"),
        _SENDS.is_null().any().alias("_no_root"),
        (pl.col("type").is_in(PAIRED).all() & _SENDS.any() & _RECEIVES.any()).alias("_is_pair"),
        pl.col("group_size").max().alias("_group_size"),
        pl.col("_complete").first(),
        _END.filter(_RECEIVES & pl.col("_on_host")).max().alias("_received_end_ns"),
        clock_width().alias("clock_width_ns"),
    )
    shortest = fast.group_by("_key").agg(pl.col("rank").last().alias("_shortest_sender"))
    return (
        every.join(shortest, on="_key", how="left")
        .with_columns(_method().alias("method"), _received().alias("_received_ns"))
        .with_columns(_is_bound().alias("is_bound"))
    )


def _received() -> pl.Expr:
    """Return how long a receive on the host transfers; null: it is no such pair."""
    return pl.col("_received_end_ns") - pl.max_horizontal("_last_sender_ns", "_first_receiver_ns")


def _method() -> pl.Expr:
    misses_half = pl.col("_last_sender_ns").is_null() | pl.col("_first_receiver_ns").is_null()
    is_known = pl.col("clock_width_ns") <= pl.col("_shortest_ns")
    in_order = pl.col("_behind_sender_ns") >= 0
    return (
        pl.when((pl.col("_members") == 1) | (misses_half & ~pl.col("_no_root")))
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


UNKNOWN_GROUP = "unknown"
"""The group of members that name none."""


def members_with_waits(ranks: LinkedRanks) -> pl.DataFrame:
    """The columns of `waits` and of `MEMBERS`, in the order of `ranks.members`.

    `group` is never null, and `group_size` is that of the collective where there is one.
    """
    return ranks.derived(_joined_waits)


def _joined_waits(ranks: LinkedRanks) -> pl.DataFrame:
    given = waits(ranks)
    groups = ranks.collectives.select(
        "collective", pl.col("group").alias("_group"), pl.col("group_size").alias("_group_size")
    )
    return (
        ranks.members.with_columns(given.select("end_ns").get_columns())
        .hstack(given.select(pl.exclude(ranks.members.columns)))
        .join(groups, on="collective", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("group", "_group", "process_group", "communicator", pl.lit(UNKNOWN_GROUP)).alias(
                "group"
            ),
            pl.coalesce("_group_size", "group_size").alias("group_size"),
        )
        .drop("_group", "_group_size")
    )


def transfers(ranks: LinkedRanks) -> pl.DataFrame:
    """One row per collective and member that matches no other, in the order of first arrivals: as `COLLECTIVES`."""
    return ranks.derived(_of_collectives)


def _of_collectives(ranks: LinkedRanks) -> pl.DataFrame:
    members = members_with_waits(ranks)
    own = -1 - pl.int_range(pl.len())
    keyed = members.with_columns(pl.coalesce("collective", own).alias("_key")).sort(
        "_key", "rank", maintain_order=True
    )
    found = keyed.group_by("_key").agg(*_first(), *_over_members())
    matched = ranks.collectives.select(
        "collective", "sequence", "type", "dtype", "ranks", "missing", "method", "confidence", "agrees"
    )
    alone = pl.col("collective").is_null()
    return (
        found.join(matched, on="collective", how="left", suffix="_matched")
        .with_columns(
            pl.when(alone).then(name).otherwise(f"{name}_matched").alias(name)
            for name in ("sequence", "type", "dtype", "ranks")
        )
        .with_columns(_transfer().alias("transfer_ns"), size_of().alias("size_bytes"))
        .with_columns(algorithm_rate(pl.col("transfer_ns")).alias("algorithm_bytes_per_s"))
        .with_columns(bus_rate().alias("bus_bytes_per_s"))
        .sort("first_arrival_ns", "_key")
    )


def _first() -> list[pl.Expr]:
    """Value of the lowest-ranked member that has one."""
    names = ("step", "description", "name", "library", "algorithm", "protocol", "sequence", "dtype")
    of_collective = ("collective", "group", "type", "group_size", "is_bound", "clock_width_ns")
    return [
        *(pl.col(name).drop_nulls().first() for name in names),
        *(pl.col(name).first() for name in of_collective),
        pl.col("method").first().alias("transfer_method"),
    ]


def _over_members() -> list[pl.Expr]:
    waiting, arrival = pl.col("waiting_ns"), pl.col("arrival_ns")
    last = pl.col("rank").get(arrival.arg_max())
    lasting = pl.col("dur_ns") > 0
    shortest = (
        pl.col("rank").filter(lasting).sort_by(pl.col("dur_ns").filter(lasting), maintain_order=True).first()
    )
    received_on_host = is_pair_on_host() & (pl.col("type") == CollectiveType.RECEIVE.value)
    by_shortest = pl.col("method").first() == TransferMethod.SHORTEST_MEMBER.value
    return [
        pl.col("rank").alias("ranks"),
        pl.col("in_bytes").max(),
        pl.col("out_bytes").max(),
        arrival.min().alias("first_arrival_ns"),
        arrival.max().alias("last_arrival_ns"),
        pl.col("end_ns").max(),
        pl.when(pl.len() > 1).then(pl.when(by_shortest).then(shortest).otherwise(last)).alias("last_rank"),
        sum_of(waiting, "waiting_ns"),
        sum_of(pl.col("rest_ns"), "rest_ns"),
        pl.col("dur_ns").sum(),
        pl.col("dur_ns").filter(lasting).min().fill_null(0).alias("_shortest_ns"),
        pl.len().cast(pl.Int64).alias("members"),
        pl.col("transfer_ns").count().alias("_known"),
        pl.col("transfer_ns").filter(received_on_host).first().alias("_received_ns"),
    ]


def _transfer() -> pl.Expr:
    """Transfer from the last arrival to the last end; by the shortest member if clocks or members are missing.

    A send on the host may start or end long after all is received, so the transfer is that of the receive.
    """
    by_clock = pl.col("transfer_method") == TransferMethod.LAST_ARRIVAL.value
    to_last_end = pl.coalesce("_received_ns", pl.col("end_ns") - pl.col("last_arrival_ns"))
    return pl.when(by_clock).then(to_last_end).when(pl.col("_known") > 0).then("_shortest_ns")


@job_analysis(
    COLLECTIVE_RANKS,
    Family.COLLECTIVES,
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.STEPS, Need.COLLECTIVES),
    shown=(
        "type arrival_ns waiting_ns! waited_for transfer_ns late_by_ns dur_ns rest_ns group name is_bound"
        " transfer_method"
    ),
    picked_by=("waiting_ns",),
)
def collective_ranks(ranks: LinkedRanks) -> pl.DataFrame:
    """How long does each rank wait at each collective?

    The part of each rank in each collective: `COLLECTIVE_RANKS`.

    Args:
        ranks: the ranks of a job.
    """
    members = members_with_waits(ranks).with_columns(pl.col("method").alias("transfer_method"))
    return COLLECTIVE_RANKS.conform(members.sort("rank", "arrival_ns", "event_id"))


@job_analysis(
    COLLECTIVES,
    Family.COLLECTIVES,
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.STEPS, Need.COLLECTIVES),
    shown=(
        "type first_arrival_ns transfer_ns waiting_ns! last_rank size_bytes dtype bus_bytes_per_s "
        "group_size group missing is_bound transfer_method method"
    ),
    formula=(
        "transfer: from the last arrival to the last end, or the shortest member's duration where clocks "
        "are not known well enough. waiting: from a member's arrival to that of the last rank it receives"
        " from. Algorithm bandwidth = size / transfer; bus bandwidth = that times the factor of nccl-"
        "tests."
    ),
    on_page=OnPage(Rows.JOB_ROWS, by=("transfer_ns", "waiting_ns")),
)
def collectives(ranks: LinkedRanks) -> pl.DataFrame:
    """How long does each collective take, and who comes last?

    All collectives of a job: `COLLECTIVES`.

    Args:
        ranks: the ranks of a job.
    """
    return COLLECTIVES.conform(transfers(ranks))


@job_analysis(
    COLLECTIVE_TOTALS,
    Family.COLLECTIVES,
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.STEPS, Need.COLLECTIVES),
    shown=(
        "group count dur_ns transfer_ns waiting_ns! caused_ns! times_last waiting_share rest_ns bounds "
        "description"
    ),
    picked_by=("caused_ns", "waiting_ns"),
    formula=(
        "duration = transfer + waiting + rest, over the members of a rank. caused: what other ranks "
        "waited for this one."
    ),
    on_page=OnPage(Rows.JOB_ROWS, by=("caused_ns", "waiting_ns")),
)
def collective_totals(ranks: LinkedRanks, *, per_step: bool = False) -> pl.DataFrame:
    """How long does each rank transfer and wait in total?

    What each rank spends in the collectives of each group: `COLLECTIVE_TOTALS`.

    Args:
        ranks: the ranks of a job.
        per_step: rows per step instead of over all; caused waiting counts in the step of the waiting ranks.
    """
    members = members_with_waits(ranks)
    if not per_step:
        members = members.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    key = ["rank", "step", "group"]
    known, is_bound = pl.col("waiting_ns").is_not_null(), pl.col("is_bound").fill_null(value=True)
    suffered = members.group_by(key).agg(
        pl.col("description").drop_nulls().first(),
        pl.len().alias("count"),
        pl.col("dur_ns").sum(),
        *(sum_of(pl.col(name), name) for name in ("transfer_ns", "waiting_ns", "rest_ns")),
        pl.col("dur_ns").filter(known).sum().alias("_known_ns"),
        is_bound.sum().alias("bounds"),
        (pl.col("collective").is_null() & is_bound).all().alias("_alone"),
    )
    caused = (
        members.drop("rank")
        .filter(pl.col("waited_for").is_not_null())
        .group_by(pl.col("waited_for").alias("rank"), "step", "group")
        .agg(
            pl.col("waiting_ns").sum().alias("caused_ns"), pl.col("collective").n_unique().alias("times_last")
        )
    )
    begun = members.group_by("step").agg(pl.col("arrival_ns").min().alias("_begun"))
    share = pl.when(pl.col("_known_ns") > 0).then(pl.col("waiting_ns") / pl.col("_known_ns"))
    counts, of_others = ("count", "dur_ns", "bounds"), ("caused_ns", "times_last")
    nothing, alone = pl.col("count").is_null(), pl.col("_alone").fill_null(value=False)
    rows = (
        suffered.join(caused, on=key, how="full", coalesce=True, nulls_equal=True)
        .with_columns(
            *(pl.col(name).fill_null(0) for name in counts),
            *(
                pl.when(alone).then(name).otherwise(pl.col(name).fill_null(0)).alias(name)
                for name in of_others
            ),
            *(pl.when(nothing).then(0).otherwise(name).alias(name) for name in ("transfer_ns", "rest_ns")),
        )
        .with_columns(share.alias("waiting_share"))
        .join(begun, on="step", how="left", nulls_equal=True)
    )
    return COLLECTIVE_TOTALS.conform(rows.sort("rank", "_begun", "step", "group"))


_KEY = ("group", "type", "dtype", "group_size", "size_bytes", "library", "algorithm", "protocol")
_TRANSFER = pl.col("transfer_ns")


@job_analysis(
    COLLECTIVE_BANDWIDTH,
    Family.COLLECTIVES,
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.STEPS, Need.COLLECTIVES),
    shown=(
        "type size_bytes dtype count transfer_median_ns bus_bytes_per_s algorithm_bytes_per_s peak_share "
        "waiting_share! group_size group bounds transfer_ns library algorithm protocol transfer_min_ns "
        "transfer_max_ns description"
    ),
    formula=(
        "Algorithm bandwidth = size / median transfer; bus bandwidth = factor * that, with 2 (n - 1) / n "
        "for an all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all (nccl-tests, "
        "PERFORMANCE.md)."
    ),
    on_page=OnPage(Rows.JOB_ROWS, by=("transfer_ns",)),
)
def collective_bandwidth(
    ranks: LinkedRanks, *, per_step: bool = False, peak_bandwidth: float | None = None
) -> pl.DataFrame:
    """What bandwidth do collectives reach?

    Transfers and bandwidths of alike collectives: `COLLECTIVE_BANDWIDTH`.

    Args:
        ranks: the ranks of a job.
        per_step: rows per step instead of over all.
        peak_bandwidth: of the interconnect, in bytes/s, with which bus bandwidth is compared.

    The source of the formulas is nccl-tests' `doc/PERFORMANCE.md`.
    """
    found = transfers(ranks)
    if not per_step:
        found = found.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    peak = peak_bandwidth if peak_bandwidth is not None and peak_bandwidth > 0 else None
    durations = pl.col("dur_ns").filter(pl.col("waiting_ns").is_not_null()).sum()
    rows = (
        found.group_by("step", *_KEY, maintain_order=True)
        .agg(
            pl.col("description").drop_nulls().first(),
            pl.col("first_arrival_ns").first(),
            pl.len().alias("count"),
            pl.col("is_bound").fill_null(value=True).sum().alias("bounds"),
            sum_of(_TRANSFER, "transfer_ns"),
            mean_of(_TRANSFER, "transfer_mean_ns"),
            median_of(_TRANSFER, "transfer_median_ns"),
            p95_of(_TRANSFER, "transfer_p95_ns"),
            min_of(_TRANSFER, "transfer_min_ns"),
            max_of(_TRANSFER, "transfer_max_ns"),
            std_of(_TRANSFER, "transfer_std_ns"),
            pl.when(durations > 0).then(pl.col("waiting_ns").sum() / durations).alias("waiting_share"),
        )
        .with_columns(algorithm_rate(pl.col("transfer_median_ns")).alias("algorithm_bytes_per_s"))
        .with_columns(bus_rate().alias("bus_bytes_per_s"))
        .with_columns((pl.col("bus_bytes_per_s") / pl.lit(peak, dtype=pl.Float64)).alias("peak_share"))
    )
    # Rows of a step stand together, steps in the order of their first collective.
    begun = pl.col("first_arrival_ns").min().over("step")
    ordered = rows.sort(
        begun, "step", "transfer_ns", "first_arrival_ns", *_KEY, descending=[False, False, True, *[False] * 9]
    )
    return COLLECTIVE_BANDWIDTH.conform(ordered)
