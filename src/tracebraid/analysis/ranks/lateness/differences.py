"""By how much does what a late rank did before a collective differ from what the other ranks did?

Medians are over the other ranks. A name that another rank lacks took it at most the least time that was kept of its
segment (see `rank_segments`); that bound is used, so a difference may be too small, never too large.
"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.ranks.lateness.segment_kinds import SegmentKind

__all__ = ["by_name", "carried"]

_THING = ["kind", "name", "merged"]
_MEMBER = ["rank", "event_id"]
_LEAST_OF_STEP = 0.5
"""Share of a difference before a send or receive by which the rank's whole step differs at least: a chosen value."""
_WORKS = pl.col("kind") != SegmentKind.COMMUNICATION


def by_name(late: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """For each collective and each thing that its late rank did: time and count there, and on the other ranks.

    Columns: collective, kind, name, merged, time_ns, count, others_ns, others_count, and excess_ns, what it took
    longer on the late rank.

    Of a send or receive the others are all ranks, in all their segments before one in which they did the same thing:
    the two of a pair do different things. By the order of a pipeline a rank may do more before one of its sends and
    less before the others: what does not take it longer in the whole step is left out.

    Args:
        late: `late_ranks`, those that are asked for.
        arrived: `arrivals`.
        segments: `rank_segments` of all ranks.
    """
    own = (
        late.select("collective", "paired", "step", *_MEMBER)
        .join(segments.filter(_WORKS), on=_MEMBER)
        .select("collective", "paired", "rank", "step", *_THING, "time_ns", "count")
    )
    of_pairs = arrived.filter("paired").select(*_MEMBER, "step").join(segments.filter(_WORKS), on=_MEMBER)
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
    of_others = others.join(segments.filter(_WORKS), on=_MEMBER)
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
                *_THING,
                pl.col("time_ns").alias("other_ns"),
                pl.col("count").alias("other_count"),
            ),
            on=["collective", "rank", *_THING],
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
        .group_by("collective", *_THING)
        .agg(
            pl.col("time_ns", "count").first(),
            pl.col("other_ns").median().alias("others_ns"),
            pl.col("other_count").median().alias("others_count"),
        )
    )


def _against_all(own: pl.DataFrame, of_pairs: pl.DataFrame) -> pl.DataFrame:
    own = own.filter("paired")
    by_rank = of_pairs.group_by("rank", *_THING).agg(
        pl.col("time_ns").median().alias("other_ns"), pl.col("count").median().alias("other_count")
    )
    of_rank = (
        own.select("rank", *_THING)
        .unique()
        .join(by_rank, on=_THING, suffix="_of_other")
        .filter(pl.col("rank") != pl.col("rank_of_other"))
        .group_by("rank", *_THING)
        .agg(
            pl.col("other_ns").median().alias("others_ns"),
            pl.col("other_count").median().alias("others_count"),
        )
    )
    key = ["rank", "step", *_THING]
    more = pl.col("time_ns") - pl.col("others_ns")
    return (
        own.join(of_rank, on=["rank", *_THING], how="left")
        .with_columns(pl.col("others_ns", "others_count").fill_null(0.0))
        .join(_beyond_in_step(of_pairs), on=key, how="left", nulls_equal=True)
        .filter(pl.col("beyond_ns") >= _LEAST_OF_STEP * more)
        .select("collective", *_THING, "time_ns", "count", "others_ns", "others_count")
    )


def _beyond_in_step(of_pairs: pl.DataFrame) -> pl.DataFrame:
    """How much longer each rank did each thing than the median rank, in all its segments of a step: beyond_ns.

    Of two ranks it is the difference between both. A rank that lacks a thing took 0 for it.
    """
    at = ["step", *_THING]
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
    """How much of its lateness each late rank brought along, from earlier collectives of any group.

    Columns:
        collective: a row for each that is asked for.
        carried_ns: from its lateness at the last collective of the group, and from its waiting for others since.
        is_first: whether most of that is from before the recording.
        transfer_ns: what collectives transferred longer since; 0 of a send or receive.
        transferred: the longest of them.
        source, source_rank: the collective that most of `carried_ns` comes from, and whose lateness it was; null:
            unknown.

    Args:
        late: `late_ranks`, those that are asked for.
        arrived: `arrivals`.
        segments: `rank_segments` of all ranks.
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
    """How late each member was when its segment began.

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
    """What each member's rank waited and transferred in each collective that ran in the segment."""
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
        .join(segments.filter(~_WORKS).drop("merged"), on=_MEMBER)
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
