"""Steps of all ranks, and their waits for each other."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers import waits
from tracebraid.analysis.ranks.lateness import arrivals, late_ranks
from tracebraid.analysis.time.breakdown import breakdown, step_spans, without_start_skew
from tracebraid.model.analysis import Family, Need, OnPage, Rows, job_analysis
from tracebraid.model.answers import RANK
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import is_skewed

_KEY = ["rank", "step"]
_TIMES = ("start_ns", "span_ns", "compute_ns", "idle_ns")


def steps_of_rank(linked: LinkedTrace) -> pl.DataFrame:
    """The steps of a rank: rank, step, start_ns, span_ns, and compute_ns and idle_ns of its first device.

    A step that occurs several times is one row, from its first start to its last end.
    """
    start, end = pl.col("start_ns").min(), pl.col("end_ns").max()
    windows = (
        step_spans(linked).group_by("step", maintain_order=True).agg(start, (end - start).alias("span_ns"))
    )
    work = breakdown(linked)
    first = work.filter(pl.col("device") == work.get_column("device").first()) if work.height else work
    of_steps = first.group_by("step").agg(pl.col("compute_ns", "idle_ns").sum())
    return windows.join(of_steps, on="step", how="left", maintain_order="left").select(
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"), pl.col("step").cast(pl.String), *_TIMES
    )


RANK_STEPS = Table(
    "rank_steps",
    "One row per step and rank, steps in the order in which they begin on any rank, then ranks.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step, by its annotation's name"),
        Column("ranks", Kind.INT, "how many ranks have a step of that name"),
        Column(
            "start_ns", Kind.INT, "its start, on aligned clocks; of the first when it has begun on all ranks"
        ),
        Column("span_ns", Kind.INT, "its length, to the end of its host or device"),
        Column("compute_ns", Kind.INT, "something computes, as in `breakdown`; null: nothing works"),
        Column("idle_ns", Kind.INT, "nothing works, as in `breakdown`; null: nothing works at all"),
        Column("transfer_ns", Kind.INT, "its collectives transfer; null, as what follows: none was matched"),
        Column("waiting_ns", Kind.INT, "its collectives wait for another rank; overlaps count once"),
        Column("caused_ns", Kind.INT, "sum over the other ranks: how long they waited for this one"),
        Column("late_ns", Kind.INT, "sum, over the collectives at which it was last, of its lateness"),
        Column("late_count", Kind.INT, "collectives at which it was last, and somebody waited"),
        Column("collectives", Kind.INT, "its collectives that are matched with another rank's"),
    ),
)


@job_analysis(
    RANK_STEPS,
    Family.RANKS,
    gathers=(steps_of_rank,),
    needs=(Need.STEPS,),
    uses=(Need.SEVERAL_RANKS, Need.COMMUNICATION),
    shown=(
        "span_ns compute_ns transfer_ns waiting_ns! caused_ns! idle_ns late_ns late_count collectives "
        "start_ns ranks"
    ),
    picked_by=("caused_ns", "waiting_ns"),
    formula=(
        "waiting: time in which at least one collective of the rank waits. caused: what others waited for"
        " this rank."
    ),
    on_page=OnPage(),
)
def rank_steps(ranks: LinkedRanks) -> pl.DataFrame:
    """How does each rank spend its steps?

    All steps of all ranks. The first step of the job begins when it has begun on all ranks, so that a rank whose
    recording began earlier does not count what it waits until then.

    Args:
        ranks: the ranks of a job.
    """
    if ranks.ranks.is_empty():
        return RANK_STEPS.empty()
    own = ranks.of(steps_of_rank).with_columns((pl.col("start_ns") + pl.col("span_ns")).alias("end_ns"))
    steps = without_start_skew(ranks.aligned(own, "start_ns", "end_ns"), "step").with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("span_ns"),
        pl.len().over("step").alias("ranks"),
        pl.col("start_ns").min().over("step").alias("begins"),
    )
    # What is waited before is waited for recordings that begin later.
    begins = pl.lit(steps.get_column("start_ns").min(), dtype=pl.Int64)
    waited = pl.col("arrival_ns") + pl.col("waiting_ns") - begins
    arrived = arrivals(ranks).with_columns(pl.min_horizontal("waited_ns", waited.clip(lower_bound=0)))
    caused = arrived.filter(pl.col("waited_for").is_not_null()).select(
        pl.col("waited_for").alias("rank"), "step", "waited_ns"
    )
    lateness = pl.min_horizontal("lateness_ns", (pl.col("arrival_ns") - begins).clip(lower_bound=0))
    late = late_ranks(arrived).filter(pl.col("caused_ns") > 0).with_columns(lateness)
    found = (
        steps.join(_sums(arrived), on=_KEY, how="left")
        .join(caused.group_by(_KEY).agg(pl.col("waited_ns").sum().alias("caused_ns")), on=_KEY, how="left")
        .join(
            late.group_by(_KEY).agg(
                pl.col("lateness_ns").sum().alias("late_ns"), pl.len().alias("late_count")
            ),
            on=_KEY,
            how="left",
        )
        .join(_unmatched(ranks), on=_KEY, how="left")
        .with_columns(
            pl.col("collectives").fill_null(0),
            *(
                pl.when((pl.col("collectives") > 0) | pl.col("unmatched").is_null()).then(
                    pl.col(name).fill_null(0)
                )
                for name in ("transfer_ns", "waiting_ns", "caused_ns", "late_ns", "late_count")
            ),
        )
    )
    return RANK_STEPS.conform(found.sort("begins", "step", "rank"))


def without_skewed(times: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """`step_times` of ranks without those that `rank_steps` cuts: what fills the rest of these is not known."""
    cut = steps.select(*_KEY, pl.col("span_ns").alias("cut_ns"))
    joined = times.join(cut, on=_KEY, how="left", maintain_order="left")
    return joined.filter(~is_skewed(pl.col("span_ns"), pl.col("cut_ns"))).select(times.columns)


def _unmatched(ranks: LinkedRanks) -> pl.DataFrame:
    """How many members of each rank and step meet no other rank's, though others are in their group."""
    is_bound = waits(ranks).get_column("is_bound").fill_null(value=True)
    found = ranks.members.filter(pl.col("collective").is_null() & is_bound)
    return found.group_by("rank", pl.col("step").cast(pl.String)).agg(pl.len().alias("unmatched"))


def _sums(arrived: pl.DataFrame) -> pl.DataFrame:
    return arrived.group_by(_KEY).agg(
        pl.col("transfer_ns").sum(),
        pl.col("waited_ns").sum().alias("waiting_ns"),
        pl.len().cast(pl.Int64).alias("collectives"),
    )


RANK_WAITS = Table(
    "rank_waits",
    "One row per rank and rank that it waited for, and with `per_step` per step; in the order of both.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step in which the collective was issued; null: all, or in none"),
        Column("waited_for", Kind.INT, "the rank that it waited for"),
        Column("waiting_ns", Kind.INT, "waiting time; concurrent waits of several collectives count once"),
        Column("count", Kind.INT, "in how many collectives"),
        Column("longest_ns", Kind.INT, "the longest of them"),
        Column("share", Kind.FLOAT, "of all that the rank waited, in the step or over all, 0 to 1"),
    ),
)


@job_analysis(
    RANK_WAITS,
    Family.RANKS,
    needs=(Need.SEVERAL_RANKS, Need.COMMUNICATION),
    uses=(Need.STEPS,),
    shown="waited_for waiting_ns! share count longest_ns",
    picked_by=("waiting_ns",),
    when_empty="no rank waits for another in what was matched",
    formula=(
        "From a rank's arrival at a collective until the last rank it receives from has arrived: that "
        "rank is the one waited for."
    ),
    on_page=OnPage(Rows.JOB_ROWS, by=("waiting_ns",)),
)
def rank_waits(ranks: LinkedRanks, per_step: bool = False) -> pl.DataFrame:
    """Which rank waits for which, and how long?

    Who waited for whom at collectives.

    Args:
        ranks: the ranks of a job.
        per_step: a row per step too.
    """
    step = pl.col("step") if per_step else pl.lit(None, dtype=pl.String).alias("step")
    keys = ["rank", "step", "waited_for"]
    waited = pl.col("waited_ns")
    found = (
        arrivals(ranks)
        .filter(pl.col("waited_for").is_not_null() & (waited > 0))
        .with_columns(step)
        .group_by(keys, maintain_order=True)
        .agg(
            waited.sum().alias("waiting_ns"),
            pl.len().cast(pl.Int64).alias("count"),
            waited.max().alias("longest_ns"),
            pl.col("arrival_ns").min().alias("first"),
        )
        .with_columns((pl.col("waiting_ns") / pl.col("waiting_ns").sum().over("rank", "step")).alias("share"))
    )
    order = pl.col("first").min().over("step")
    return RANK_WAITS.conform(found.sort("rank", order, "waited_for"))
