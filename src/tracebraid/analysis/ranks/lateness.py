"""Causes of a rank's late arrival at a collective."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.collectives.transfers import waits
from tracebraid.analysis.ranks.segments import GROUP, SegmentKind
from tracebraid.model.answers.job import LateCause
from tracebraid.model.collectives import BETWEEN_TWO
from tracebraid.model.linked_ranks import LinkedRanks

_Ints = NDArray[np.int64]


def arrivals(ranks: LinkedRanks) -> pl.DataFrame:
    """The rows of `waits` of matched collectives of which several ranks are there, with further columns.

    paired: whether it is a send or receive.
    waiting_ns: the waiting; of a send, the time until its receiver is there.
    waited_ns: the part of it in which no earlier collective of the rank waits: adds up over collectives.
    waited_for: whom for.
    previous, previous_late_by: the collective before it of the rank's group, and `late_by_ns` there; null: none.
    """
    return ranks.derived(_arrivals)


def _arrivals(ranks: LinkedRanks) -> pl.DataFrame:
    groups = ranks.members.select("rank", "event_id", GROUP.alias("group"))
    found = (
        waits(ranks)
        .join(groups, on=["rank", "event_id"], how="left", maintain_order="left")
        .filter(pl.col("collective").is_not_null())
        .filter(pl.len().over("collective") > 1)
    )
    last = found.sort("late_by_ns", "rank", descending=[True, False], nulls_last=True)
    latest = last.group_by("collective", maintain_order=True).agg(pl.col("rank").first().alias("latest"))
    of_send = (
        (pl.col("waited_for").is_null()) & (pl.col("rest_ns") > 0) & (pl.col("rank") != pl.col("latest"))
    )
    return (
        found.join(latest, on="collective", how="left", maintain_order="left")
        .with_columns(
            pl.when(of_send).then("rest_ns").otherwise("waiting_ns").fill_null(0).alias("waiting_ns"),
            pl.when(of_send).then("latest").otherwise("waited_for").alias("waited_for"),
            pl.col("type").is_in([kind.value for kind in BETWEEN_TWO]).fill_null(value=False).alias("paired"),
        )
        .pipe(_with_waited)
        .sort("rank", "arrival_ns", "event_id")
        .with_columns(
            pl.col("collective").shift(1).over("rank", "group").alias("previous"),
            pl.col("late_by_ns").shift(1).over("rank", "group").alias("previous_late_by"),
        )
    )


def _with_waited(found: pl.DataFrame) -> pl.DataFrame:
    ordered = found.sort("rank", "arrival_ns", "event_id")
    end = pl.col("arrival_ns") + pl.col("waiting_ns")
    reach = end.cum_max().shift(1).over("rank")
    begin = pl.max_horizontal("arrival_ns", reach)
    return ordered.with_columns((end - begin).clip(lower_bound=0).alias("waited_ns"))


def late_ranks(arrived: pl.DataFrame) -> pl.DataFrame:
    """The last arrival at each collective, in the order of collectives: the rows of `arrivals`, and further columns.

    lateness_ns: how much later than the median of the others.
    margin_ns: how much later than the last of them.
    caused_ns: sum of `waited_ns` of those that waited for it.
    """
    others = pl.col("rank") != pl.col("latest")
    late_by = pl.col("late_by_ns")
    of_others = arrived.group_by("collective").agg(
        late_by.filter(others).median().round().cast(pl.Int64).alias("others_late_by"),
        late_by.filter(others).max().alias("next_late_by"),
        pl.col("waited_ns").filter(pl.col("waited_for") == pl.col("latest")).sum().alias("caused_ns"),
    )
    return (
        arrived.filter(~others)
        .join(of_others, on="collective", how="left")
        .with_columns(
            (late_by - pl.col("others_late_by")).alias("lateness_ns"),
            (late_by - pl.col("next_late_by")).alias("margin_ns"),
        )
        .sort("collective")
    )


LEAST_EXPLAINED = 0.25
"""Minimum share of the lateness that a cause explains (heuristic): four causes may have equal shares."""

_BY_COUNT = 0.5
"""Share of the difference that comes with the number of kernels, from which on their number is the cause."""

_COLLECTOR = r"(^|[^\w])gc\.collect|built-in method collect|(^|/)gc\.py"
"""Python functions that collect garbage."""

_CAUSES = {
    SegmentKind.QUEUED: LateCause.QUEUE_DELAY,
    SegmentKind.HOST_OP: LateCause.LONGER_HOST_OP,
    SegmentKind.CALL: LateCause.LONGER_HOST_OP,
    SegmentKind.DATA: LateCause.DATA_LOADER,
    SegmentKind.PYTHON: LateCause.PYTHON,
    SegmentKind.NO_EVENT: LateCause.HOST_WITHOUT_EVENTS,
}

_NAMED_TIMES = ("name", "time_ns", "others_ns", "difference_ns")


def with_causes(late: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The rows of `late_ranks` with the columns of `LATE_ARRIVALS` from `cause` to `origin_collective`.

    The excess of all things of a kind is summed; the kind with most is the cause, and its thing with most is named.
    """
    brought = carried(late, arrived, segments)
    causes = pl.concat([_own_causes(by_name(late, arrived, segments)), _brought_causes(brought)])
    most = (
        causes.filter(pl.col("explained_ns") > 0)
        .sort("explained_ns", "cause", descending=[True, False])
        .unique("collective", keep="first", maintain_order=True)
    )
    found = late.join(most, on="collective", how="left", maintain_order="left").pipe(_with_share)
    return with_origins(found, brought)


def _own_causes(differing: pl.DataFrame) -> pl.DataFrame:
    """Explained time by collective and kind of cause, with name and times of the largest difference."""
    family = pl.when(pl.col("cause") == LateCause.MORE_KERNELS.value).then(
        pl.lit(LateCause.LONGER_KERNEL.value)
    )
    return (
        differing.filter(pl.col("excess_ns") > 0)
        .with_columns(_cause())
        .with_columns(pl.coalesce(family, "cause").alias("family"))
        .sort("excess_ns", "merged", "name", descending=[True, False, False])
        .group_by("collective", "family", maintain_order=True)
        .agg(
            pl.col("cause").first(),
            pl.col("excess_ns").sum().alias("explained_ns"),
            pl.when(pl.col("name").first() != "").then(pl.col("name").first()).alias("name"),
            pl.col("time_ns", "others_ns").first(),
            pl.col("excess_ns").first().alias("difference_ns"),
        )
        .select("collective", "cause", "explained_ns", *_NAMED_TIMES)
    )


def _brought_causes(brought: pl.DataFrame) -> pl.DataFrame:
    nothing = (pl.lit(None, dtype=pl.Int64).alias(name) for name in _NAMED_TIMES[1:])
    unnamed = pl.lit(None, dtype=pl.String).alias("name")
    brought = brought.with_columns(unnamed, *nothing)
    inherited = pl.when("is_first").then(pl.lit(LateCause.BEFORE_RECORDING.value))
    return pl.concat(
        [
            brought.select(
                "collective",
                inherited.otherwise(pl.lit(LateCause.INHERITED.value)).alias("cause"),
                pl.col("carried_ns").alias("explained_ns"),
                *_NAMED_TIMES,
            ),
            brought.select(
                "collective",
                pl.lit(LateCause.LONGER_TRANSFER.value).alias("cause"),
                pl.col("transfer_ns").alias("explained_ns"),
                pl.col("transferred").alias("name"),
                *_NAMED_TIMES[1:],
            ),
        ]
    )


def _cause() -> pl.Expr:
    """The cause that each thing is, by its kind, and of kernels by whether there are more of them."""
    kind = pl.col("kind")
    mean = pl.col("others_ns") / pl.col("others_count")
    by_count = (pl.col("count") - pl.col("others_count")) * mean
    are_more = (pl.col("others_count") == 0) | (by_count >= _BY_COUNT * pl.col("excess_ns"))
    collects = pl.col("name").str.contains(_COLLECTOR) & (kind == int(SegmentKind.PYTHON))
    plain = kind.replace_strict(
        {int(kind): cause.value for kind, cause in _CAUSES.items()}, default=None, return_dtype=pl.String
    )
    return (
        pl.when(collects)
        .then(pl.lit(LateCause.GARBAGE_COLLECTION.value))
        .when(kind != int(SegmentKind.KERNEL))
        .then(plain)
        .when(are_more)
        .then(pl.lit(LateCause.MORE_KERNELS.value))
        .otherwise(pl.lit(LateCause.LONGER_KERNEL.value))
        .alias("cause")
    )


def _with_share(found: pl.DataFrame) -> pl.DataFrame:
    """Add the cause where nothing explains enough, and the explained share."""
    share = (pl.col("explained_ns") / pl.col("lateness_ns")).clip(0.0, 1.0)
    nothing = (
        pl.when("paired")
        .then(pl.lit(LateCause.PIPELINE_ORDER.value))
        .otherwise(pl.lit(LateCause.UNEXPLAINED.value))
    )
    is_enough = (share >= LEAST_EXPLAINED).fill_null(value=False)
    return found.with_columns(
        pl.when(is_enough).then("cause").otherwise(nothing).alias("cause"),
        pl.when(is_enough).then(pl.min_horizontal("explained_ns", "lateness_ns")).alias("explained_ns"),
        pl.when(is_enough).then(share).alias("explained_share"),
        *(pl.when(is_enough).then(column).alias(column) for column in _NAMED_TIMES),
    )


LEVEL = 0.01
"""Probability below which it is not by chance that a rank is the latest, corrected for the number of ranks."""


def blocks_for(ranks: int, level: float = LEVEL) -> int:
    """Return the number of blocks with the same latest rank that is significant after Bonferroni's correction."""
    if ranks < 2:
        return 1
    return math.ceil(1 - math.log(level) / math.log(ranks))


_ACTIVITY = ["kind", "name", "merged"]
_MEMBER = ["rank", "event_id"]
_LEAST_OF_STEP = 0.5
"""Share of a difference before a send or receive by which the rank's whole step must differ (heuristic)."""
_IS_WORK = pl.col("kind") != SegmentKind.COMMUNICATION


def by_name(late: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """For each collective and each thing that its late rank did: time and count there, and on the other ranks.

    Columns: collective, kind, name, merged, time_ns, count, others_ns, others_count, and excess_ns, what it took
    longer on the late rank.

    Of a send or receive the others are all ranks, in all their segments before one in which they did the same thing:
    the two of a pair do different things. By the order of a pipeline a rank may do more before one of its sends and
    less before the others: what does not take it longer in the whole step is left out.
    """
    own = (
        late.select("collective", "paired", "step", *_MEMBER)
        .join(segments.filter(_IS_WORK), on=_MEMBER)
        .select("collective", "paired", "rank", "step", *_ACTIVITY, "time_ns", "count")
    )
    of_pairs = arrived.filter("paired").select(*_MEMBER, "step").join(segments.filter(_IS_WORK), on=_MEMBER)
    found = [_against_members(own, late, arrived, segments), _against_all(own, of_pairs)]
    others_ns = pl.col("others_ns").round().cast(pl.Int64)
    return (
        pl.concat(found)
        .with_columns(others_ns)
        .with_columns((pl.col("time_ns") - pl.col("others_ns")).alias("excess_ns"))
    )


def _against_members(
    own: pl.DataFrame, late: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame
) -> pl.DataFrame:
    own = own.filter(~pl.col("paired"))
    wanted = late.filter(~pl.col("paired")).select("collective", "latest")
    others = (
        arrived.select("collective", *_MEMBER)
        .join(wanted, on="collective")
        .filter(pl.col("rank") != pl.col("latest"))
        .select("collective", *_MEMBER)
    )
    of_others = others.join(segments.filter(_IS_WORK), on=_MEMBER)
    least = of_others.group_by("collective", "rank").agg(
        pl.when(pl.col("merged").any()).then(pl.col("time_ns").filter(~pl.col("merged")).min()).alias("least")
    )
    return (
        own.drop("paired", "rank", "step")
        .join(others.select("collective", "rank"), on="collective")
        .join(
            of_others.select(
                "collective",
                "rank",
                *_ACTIVITY,
                pl.col("time_ns").alias("other_ns"),
                pl.col("count").alias("other_count"),
            ),
            on=["collective", "rank", *_ACTIVITY],
            how="left",
        )
        .join(least, on=["collective", "rank"], how="left")
        .with_columns(
            pl.coalesce(
                "other_ns",
                pl.when(~pl.col("merged") & pl.col("least").is_not_null()).then(
                    pl.min_horizontal("least", "time_ns")
                ),
                pl.lit(0),
            ).alias("other_ns"),
            pl.col("other_count").fill_null(0),
        )
        .group_by("collective", *_ACTIVITY)
        .agg(
            pl.col("time_ns", "count").first(),
            pl.col("other_ns").median().alias("others_ns"),
            pl.col("other_count").median().alias("others_count"),
        )
    )


def _against_all(own: pl.DataFrame, of_pairs: pl.DataFrame) -> pl.DataFrame:
    own = own.filter("paired")
    by_rank = of_pairs.group_by("rank", *_ACTIVITY).agg(
        pl.col("time_ns").median().alias("other_ns"), pl.col("count").median().alias("other_count")
    )
    of_rank = (
        own.select("rank", *_ACTIVITY)
        .unique()
        .join(by_rank, on=_ACTIVITY, suffix="_of_other")
        .filter(pl.col("rank") != pl.col("rank_of_other"))
        .group_by("rank", *_ACTIVITY)
        .agg(
            pl.col("other_ns").median().alias("others_ns"),
            pl.col("other_count").median().alias("others_count"),
        )
    )
    key = ["rank", "step", *_ACTIVITY]
    more = pl.col("time_ns") - pl.col("others_ns")
    return (
        own.join(of_rank, on=["rank", *_ACTIVITY], how="left")
        .with_columns(pl.col("others_ns", "others_count").fill_null(0.0))
        .join(_beyond_in_step(of_pairs), on=key, how="left", nulls_equal=True)
        .filter(pl.col("beyond_ns") >= _LEAST_OF_STEP * more)
        .select("collective", *_ACTIVITY, "time_ns", "count", "others_ns", "others_count")
    )


def _beyond_in_step(of_pairs: pl.DataFrame) -> pl.DataFrame:
    """Excess of each rank's activities over the median rank, over all segments of a step: beyond_ns.

    For two ranks it is their difference. A rank without the activity counts 0 for it.
    """
    at = ["step", *_ACTIVITY]
    totals = of_pairs.group_by("rank", *at).agg(pl.col("time_ns").sum().alias("total"))
    ranks = of_pairs.group_by("step").agg(pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"))
    ordered = pl.col("total").sort(descending=True)
    # Zeros of the ranks that lack the thing would follow.
    upper, lower = (
        ordered.get((pl.col("ranks").first() - less) // 2, null_on_oob=True).fill_null(0) for less in (1, 0)
    )
    usual = (
        totals.join(ranks, on="step", nulls_equal=True)
        .group_by(at)
        .agg(((upper + lower) / 2).alias("usual"), pl.col("ranks").first())
    )
    doubled = pl.when(pl.col("ranks") == 2).then(2).otherwise(1)
    return totals.join(usual, on=at, nulls_equal=True).select(
        "rank", *at, ((pl.col("total") - pl.col("usual")) * doubled).alias("beyond_ns")
    )


def carried(late: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Part of each late rank's lateness that it brought along from earlier collectives of any group.

    Columns:
        collective: a row for each requested one.
        carried_ns: from its lateness at the last collective of the group, and from its waiting for others since.
        is_first: whether most of that is from before the recording.
        transfer_ns: what collectives transferred longer since; 0 of a send or receive.
        transferred: the longest of them.
        source, source_rank: the collective that most of `carried_ns` comes from, and whose lateness it was; null:
            unknown.
    """
    members = arrived.join(late.select("collective"), on="collective", how="semi")
    communicated = _communicated(members, arrived, segments)
    sums = communicated.group_by("collective", "rank").agg(pl.col("waiting", "transfer").sum())
    lengths = segments.group_by(_MEMBER).agg(pl.col("time_ns").sum().alias("length"))
    by_member = members.join(sums, on=["collective", "rank"], how="left").join(
        lengths, on=_MEMBER, how="left"
    )
    is_late = pl.col("rank") == pl.col("latest")
    filled = by_member.with_columns(pl.col("waiting", "transfer").fill_null(0), _before())

    def beyond_others(column: str) -> pl.Expr:
        value = pl.col(column)
        return value.filter(is_late).first() - value.filter(~is_late).median()

    found = filled.group_by("collective").agg(
        pl.col("paired").first(),
        pl.col("previous").filter(is_late).first(),
        pl.col("previous").is_null().all().alias("is_first"),
        pl.col("latest").first(),
        beyond_others("before").fill_null(0).alias("from_previous"),
        pl.when(pl.col("paired").first())
        .then(pl.col("waiting").filter(is_late).first())
        .otherwise(beyond_others("waiting"))
        .alias("from_waiting"),
        # The two of a pair are in collectives of different groups since.
        pl.when(pl.col("paired").first()).then(0.0).otherwise(beyond_others("transfer")).alias("transfer_ns"),
    )
    return _with_sources(found, communicated)


def _before() -> pl.Expr:
    """Lateness of each member at the start of its segment.

    At the last collectives of a pair's ranks they met others, and where collectives are missing other ones: their
    lateness there is not of one collective.
    """
    alike = pl.col("previous").n_unique().over("collective") == 1
    at_start = pl.col("late_by_ns") - pl.col("length").fill_null(0)
    return (
        pl.when(alike & pl.col("previous").is_null() & ~pl.col("paired"))
        .then(at_start)
        .when(alike)
        .then("previous_late_by")
        .alias("before")
    )


def _communicated(members: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Wait and transfer of each member's rank in each collective within the segment."""
    ran = arrived.select(
        "rank",
        pl.col("event_id").alias("communication"),
        pl.col("collective").alias("source"),
        pl.col("waited_for").alias("source_rank"),
        "waiting_ns",
    )
    waiting = pl.min_horizontal("time_ns", pl.col("waiting_ns").fill_null(0))
    return (
        members.select("collective", "latest", *_MEMBER)
        .join(segments.filter(~_IS_WORK).drop("merged"), on=_MEMBER)
        .join(ran, on=["rank", "communication"], how="left")
        .with_columns(waiting.alias("waiting"), (pl.col("time_ns") - waiting).alias("transfer"))
    )


def _with_sources(found: pl.DataFrame, communicated: pl.DataFrame) -> pl.DataFrame:
    longest = (
        communicated.filter(
            (pl.col("rank") == pl.col("latest"))
            & (pl.col("waiting") > 0)
            & pl.col("source_rank").is_not_null()
        )
        .sort("waiting", "source", descending=[True, False])
        .group_by("collective", maintain_order=True)
        .agg(pl.col("source", "source_rank", "waiting").first())
    )
    transferred = (
        communicated.filter((pl.col("rank") == pl.col("latest")) & (pl.col("transfer") > 0))
        .sort("transfer", "name", descending=[True, False])
        .group_by("collective", maintain_order=True)
        .agg(pl.col("name").first().alias("transferred"))
    )
    by_previous = pl.col("from_previous") >= pl.col("waiting").fill_null(0)
    joined = found.join(longest, on="collective", how="left").join(transferred, on="collective", how="left")
    return joined.select(
        "collective",
        (pl.col("is_first") & by_previous).alias("is_first"),
        "transferred",
        (pl.col("from_previous") + pl.col("from_waiting")).round().cast(pl.Int64).alias("carried_ns"),
        pl.col("transfer_ns").round().cast(pl.Int64),
        pl.when(by_previous).then("previous").otherwise("source").alias("source"),
        pl.when(by_previous).then("latest").otherwise("source_rank").alias("source_rank"),
    )


_IS_INHERITED = pl.col("cause") == LateCause.INHERITED.value


def with_origins(late: pl.DataFrame, brought: pl.DataFrame) -> pl.DataFrame:
    """Add `origin_rank` and `origin_collective`, the start of a chain of inherited lateness; null: not inherited.

    A chain goes on while the rank whose lateness was inherited was itself last at that collective, and inherited.
    """
    found = late.join(
        brought.select("collective", "source", "source_rank"),
        on="collective",
        how="left",
        maintain_order="left",
    ).with_columns(pl.when(_IS_INHERITED).then(pl.col("source", "source_rank")))
    rows = late.select("collective", "rank").with_row_index("next")
    linked = (
        found.join(
            rows,
            left_on=["source", "source_rank"],
            right_on=["collective", "rank"],
            how="left",
            maintain_order="left",
        )
        .get_column("next")
        .cast(pl.Int64)
        .to_numpy()
        if found.height
        else np.empty(0)
    )
    itself = np.arange(found.height)
    inherits = found.select(_IS_INHERITED.fill_null(value=False)).to_series().to_numpy()
    following = np.where(np.isnan(linked.astype(np.float64)), itself, linked).astype(np.int64)
    end = _ends(np.where(inherits, following, itself))
    last = pl.Series(end)
    ending = found.select(
        pl.coalesce("source", "collective").gather(last).alias("origin_collective"),
        pl.coalesce("source_rank", "rank").gather(last).alias("origin_rank"),
        pl.col("source").is_null().gather(last).alias("ends"),
        (_IS_INHERITED & pl.col("source").is_null()).fill_null(value=False).gather(last).alias("lost"),
    )
    known = _IS_INHERITED & ~pl.col("lost")
    return (
        found.hstack(ending)
        .with_columns(
            pl.when(known).then("origin_collective").alias("origin_collective"),
            pl.when(known).then("origin_rank").alias("origin_rank"),
        )
        .drop("source", "source_rank", "ends", "lost")
    )


def _ends(following: _Ints) -> _Ints:
    """Find the end of each chain by doubling; a cyclic chain ends somewhere in its cycle."""
    for _ in range(max(len(following), 1).bit_length()):
        further = following[following]
        if (further == following).all():
            break
        following = further
    return following
