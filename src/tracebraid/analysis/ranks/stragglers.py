"""Ranks that were late by a cause of their own, tested against chance."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.distributions import at_least
from tracebraid.analysis.ranks.lateness import (
    LEVEL,
    arrivals,
    blocks_for,
    late_ranks,
    with_causes,
)
from tracebraid.analysis.ranks.segments import rank_segments
from tracebraid.model.analysis import Family, Need, OnPage, Rows, job_analysis
from tracebraid.model.answers import RANK
from tracebraid.model.answers.job import LateCause
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.linked_ranks import LinkedRanks

LEAST_LATENESS_NS = 20_000
"""Minimum lateness in ns: the time of a few launches (heuristic)."""


_RANKS_STEP = Column("step", Kind.TEXT, "the step in which the collective was issued; null: in none")

_CAUSE = Column("cause", Kind.TEXT, "a code of `LateCause`")

_INHERITED = "; null: it did not inherit its lateness, or from whom is unknown"

LATE_ARRIVALS = Table(
    "late_arrivals",
    "One row per collective at which a rank's lateness made others wait, most waiting first.",
    (
        RANK,
        _RANKS_STEP,
        Column("collective", Kind.INT, "the row of `matched_collectives`"),
        Column("type", Kind.TEXT, "what is communicated (`CollectiveType`)"),
        Column("group", Kind.TEXT, "the group"),
        Column("start_ns", Kind.INT, "its arrival, on aligned clocks"),
        Column("lateness_ns", Kind.INT, "how much later than the median of the other ranks"),
        Column("margin_ns", Kind.INT, "how much later than the last of them"),
        Column("caused_ns", Kind.INT, "sum over the other ranks: how long they waited for this one"),
        _CAUSE,
        Column(
            "name",
            Kind.TEXT,
            "the kernel, op, call, function or annotation that differs most; null: it has no name, or is many",
        ),
        Column("time_ns", Kind.INT, "its time on this rank since the last collective; null: no such thing"),
        Column("others_ns", Kind.INT, "median of its time on the other ranks, in the same segment"),
        Column("difference_ns", Kind.INT, "`time_ns` less `others_ns`"),
        Column("explained_ns", Kind.INT, "how much of the lateness the cause explains, all names together"),
        Column("explained_share", Kind.FLOAT, "of the lateness, 0 to 1"),
        Column("origin_rank", Kind.INT, "whose lateness it inherited, in the first place" + _INHERITED),
        Column("origin_collective", Kind.INT, "at which collective" + _INHERITED),
        Column("event_id", Kind.INT, "the rank's event of the collective"),
    ),
)


@job_analysis(
    LATE_ARRIVALS,
    Family.RANKS,
    gathers=(rank_segments,),
    needs=(Need.SEVERAL_RANKS, Need.COMMUNICATION),
    uses=(Need.STEPS,),
    shown=(
        "lateness_ns! caused_ns! cause name time_ns others_ns type start_ns origin_rank explained_share "
        "group collective difference_ns margin_ns"
    ),
    when_empty="no rank is late at a matched collective by more than the threshold (--set least_ns=...)",
    formula=(
        "lateness: the rank's arrival after the median of the others'. The cause is what took it longer "
        "than the others since the group's last collective."
    ),
    on_page=OnPage(Rows.JOB_ROWS, by=("caused_ns", "lateness_ns")),
)
def late_arrivals(ranks: LinkedRanks, least_ns: int = LEAST_LATENESS_NS) -> pl.DataFrame:
    """Which rank is late at which collective, and why?

    The late rank of each collective, and the cause.

    What the rank did since the collective before it of the same group is compared with what the other ranks did since
    theirs. Lateness that it brought along from earlier collectives is its `origin_rank`'s.

    Args:
        ranks: the ranks of a job.
        least_ns: the least lateness, and the least waiting that it causes, of a row, in ns.
    """
    if ranks.ranks.is_empty():
        return LATE_ARRIVALS.empty()
    arrived = arrivals(ranks)
    late = late_ranks(arrived).filter(
        (pl.col("lateness_ns") >= max(least_ns, 1)) & (pl.col("caused_ns") >= max(least_ns, 1))
    )
    # Chains of inherited lateness may begin at collectives below the threshold: they end there.
    found = with_causes(late, arrived, ranks.of(rank_segments))
    groups = ranks.collectives.select("collective", "group")
    return LATE_ARRIVALS.conform(
        found.drop("group", strict=False)
        .join(groups, on="collective", how="left", maintain_order="left")
        .with_columns(pl.col("arrival_ns").alias("start_ns"))
        .sort("caused_ns", "collective", descending=[True, False])
    )


_LEAST_TIME_SHARE = 0.005
"""Minimum share of the job's time for the lateness of a systematic straggler."""

_NORMAL_95 = 1.96
"""Standard errors on either hand of a mean in its 95 % interval."""

_NOT_OWN = [
    cause.value for cause in (LateCause.INHERITED, LateCause.BEFORE_RECORDING, LateCause.PIPELINE_ORDER)
]
"""Causes that say nothing against the late rank itself."""


STRAGGLERS = Table(
    "stragglers",
    "One row per rank that was late by a cause of its own, the most waiting caused first.",
    (
        RANK,
        Column("systematic", Kind.BOOL, "whether it is late more often than chance would have it"),
        Column("p_value", Kind.FLOAT, "probability of that by chance, corrected for the number of ranks"),
        Column("late_count", Kind.INT, "collectives at which it was late by a cause of its own"),
        Column("blocks", Kind.INT, "steps, or collectives, in which any rank was late by its own cause"),
        Column(
            "blocks_needed",
            Kind.INT,
            "minimum number that rules out chance if it is the latest in all of them",
        ),
        Column("worst_count", Kind.INT, "in how many of them it was the latest"),
        Column("share", Kind.FLOAT, "`worst_count` of `blocks`, 0 to 1"),
        Column(
            "lateness_ns",
            Kind.INT,
            "sum of its lateness by causes of its own, at collectives of all its groups",
        ),
        Column("mean_ns", Kind.FLOAT, "mean lateness of a collective at which it was late"),
        Column("mean_low_ns", Kind.FLOAT, "that mean's 95 % interval, low; null: late only once"),
        Column("mean_high_ns", Kind.FLOAT, "that mean's 95 % interval, high; null: late only once"),
        Column("caused_ns", Kind.INT, "how long others waited for it, or for who inherited its lateness"),
        Column(
            "time_share",
            Kind.FLOAT,
            "when it was late, of the time from the first collective to the last, 0 to 1",
        ),
        Column("cause", Kind.TEXT, "the cause that explains most of it: a code of `LateCause`"),
        Column("name", Kind.TEXT, "of that the name with most; null: none"),
        Column("cause_share", Kind.FLOAT, "share of `lateness_ns` that the cause explains, 0 to 1"),
    ),
)


@job_analysis(
    STRAGGLERS,
    Family.RANKS,
    gathers=(rank_segments,),
    needs=(Need.SEVERAL_RANKS, Need.COMMUNICATION),
    uses=(Need.STEPS,),
    shown=(
        "systematic! caused_ns! mean_ns cause name late_count worst_count blocks p_value cause_share "
        "mean_low_ns mean_high_ns"
    ),
    when_empty="no rank is known to be late by a cause of its own",
    formula=(
        "Of the steps in which some rank was late by its own cause, in how many this rank was the latest;"
        " p = min(1, N * P(X >= W)) with X ~ Binomial(steps, 1 / N). Systematic: p below 0.01, and late "
        "for 0.5 % of the time."
    ),
    on_page=OnPage(),
)
def stragglers(ranks: LinkedRanks, least_ns: int = LEAST_LATENESS_NS) -> pl.DataFrame:
    """Which ranks keep holding up the others, and why?

    Ranks that were late by a cause of their own, tested against chance.

    If no rank were slower than others, each would be equally likely to be the latest of a step, by the sum of its
    lateness. So of the steps in which a rank was late by its own cause, the number in which it is a given rank has a
    binomial distribution; its upper tail, times the number of ranks (Bonferroni), is `p_value`. Where there are too
    few steps to rule out chance, collectives take their place: less certain, since those of a step have much in
    common.

    Args:
        ranks: the ranks of a job.
        least_ns: lateness and waiting below which a late arrival does not count, in ns.
    """
    late = late_arrivals(ranks, least_ns)
    own = late.filter(~pl.col("cause").is_in(_NOT_OWN))
    if own.is_empty():
        return STRAGGLERS.empty()
    count = ranks.members.filter(pl.col("collective").is_not_null()).get_column("rank").n_unique()
    found = (
        _lateness(own)
        .join(_worst(own, count), on="rank", how="left")
        .join(_caused(late, own), on="rank", how="left")
        .join(_main_cause(own), on="rank", how="left")
        .join(_late_time(own), on="rank", how="left")
        .with_columns((pl.col("late_time_ns") / max(_span(ranks), 1)).alias("time_share"))
        .with_columns(
            ((pl.col("p_value") < LEVEL) & (pl.col("time_share") >= _LEAST_TIME_SHARE)).alias("systematic")
        )
    )
    return STRAGGLERS.conform(found.sort("caused_ns", "rank", descending=[True, False]))


def _lateness(own: pl.DataFrame) -> pl.DataFrame:
    lateness = pl.col("lateness_ns")
    error = _NORMAL_95 * lateness.std(ddof=1) / pl.len().sqrt()
    return own.group_by("rank").agg(
        pl.len().cast(pl.Int64).alias("late_count"),
        lateness.sum(),
        lateness.mean().alias("mean_ns"),
        (lateness.mean() - error).alias("mean_low_ns"),
        (lateness.mean() + error).alias("mean_high_ns"),
    )


def _late_time(own: pl.DataFrame) -> pl.DataFrame:
    """Time that each rank was late; overlaps count once, as a sleep may affect collectives of several groups."""
    end = pl.col("start_ns")
    begin = end - pl.col("lateness_ns")
    reach = end.cum_max().shift(1).over("rank")
    return (
        own.sort("rank", "start_ns")
        .with_columns((end - pl.max_horizontal(begin, reach)).clip(lower_bound=0).alias("late_time_ns"))
        .group_by("rank")
        .agg(pl.col("late_time_ns").sum())
    )


def _worst(own: pl.DataFrame, count: int) -> pl.DataFrame:
    """Number of blocks in which each rank was the latest, and its probability by chance."""
    in_steps = own.filter(pl.col("step").is_not_null())
    by_steps = in_steps.get_column("step").n_unique() >= blocks_for(count)
    rows, block = (in_steps, "step") if by_steps else (own, "collective")
    sums = rows.group_by(block, "rank").agg(pl.col("lateness_ns").sum())
    worst = sums.sort("lateness_ns", "rank", descending=[True, False]).unique(
        block, keep="first", maintain_order=True
    )
    counts = dict(worst.group_by("rank").len().iter_rows())
    of_ranks = own.get_column("rank").unique(maintain_order=True).to_list()
    worst_counts = [counts.get(rank, 0) for rank in of_ranks]
    probable = [at_least(times, worst.height, 1 / count) for times in worst_counts]
    return pl.DataFrame(
        {
            "rank": of_ranks,
            "blocks": worst.height,
            "blocks_needed": blocks_for(count),
            "worst_count": worst_counts,
            "share": [times / worst.height for times in worst_counts],
            "p_value": [min(1.0, count * value) for value in probable],
        }
    )


def _caused(late: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return how long others waited for a rank, or for those who inherited its lateness."""
    key = ["origin_rank", "origin_collective"]
    first = own.select(pl.col("rank").alias(key[0]), pl.col("collective").alias(key[1]))
    caused = late.with_columns(pl.coalesce(key[0], "rank"), pl.coalesce(key[1], "collective"))
    return (
        caused.join(first, on=key, how="semi")
        .group_by(pl.col("origin_rank").alias("rank"))
        .agg(pl.col("caused_ns").sum())
    )


def _main_cause(own: pl.DataFrame) -> pl.DataFrame:
    explained = pl.col("explained_ns").fill_null(0)
    by_name = own.group_by("rank", "cause", "name").agg(explained.sum())
    total = own.group_by("rank").agg(pl.col("lateness_ns").sum().alias("total_ns"))
    first = by_name.sort(
        "explained_ns", "cause", "name", descending=[True, False, False], nulls_last=True
    ).unique(["rank", "cause"], keep="first", maintain_order=True)
    return (
        own.group_by("rank", "cause")
        .agg(explained.sum().alias("cause_ns"))
        .sort("cause_ns", "cause", descending=[True, False])
        .unique("rank", keep="first", maintain_order=True)
        .join(first.select("rank", "cause", "name"), on=["rank", "cause"], how="left")
        .join(total, on="rank")
        .with_columns((pl.col("cause_ns") / pl.col("total_ns")).alias("cause_share"))
        .select("rank", "cause", "name", "cause_share")
    )


def _span(ranks: LinkedRanks) -> int:
    """Span from the first collective to the end of the last, on the rank with the longest: clocks may be unknown."""
    length = pl.col("end_ns").max() - pl.col("start_ns").min()
    longest = ranks.members.group_by("rank").agg(length.alias("span_ns")).get_column("span_ns").max()
    return longest if isinstance(longest, int) else 0
