"""How do the ranks spend each step: computing, communicating, waiting for each other?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.ranks.lateness.arrivals import arrivals, late_ranks
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import RANK_STEPS
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["rank_steps", "steps_of_rank"]

_KEY = ["rank", "step"]
_TIMES = ("start_ns", "span_ns", "compute_ns", "idle_ns")


def steps_of_rank(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The steps of a rank: rank, step, start_ns, span_ns, and compute_ns and idle_ns of its first device.

    A step that occurs several times is one row, from its first start to its last end.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    start, end = pl.col("start_ns").min(), pl.col("end_ns").max()
    windows = (
        step_windows(linked, annotation)
        .group_by("step", maintain_order=True)
        .agg(start, (end - start).alias("span_ns"))
    )
    work = breakdown(linked, annotation)
    first = work.filter(pl.col("device") == work.get_column("device").first()) if work.height else work
    of_steps = first.group_by("step").agg(pl.col("compute_ns", "idle_ns").sum())
    return windows.join(of_steps, on="step", how="left", maintain_order="left").select(
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"), pl.col("step").cast(pl.String), *_TIMES
    )


def rank_steps(ranks: LinkedRanks, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """All steps of all ranks: `model.answers.RANK_STEPS`.

    Args:
        ranks: the ranks of a job.
        annotation: what marks a step.
    """
    if ranks.ranks.is_empty():
        return RANK_STEPS.empty()
    arrived = arrivals(ranks)
    steps = ranks.aligned(ranks.of(steps_of_rank), "start_ns").with_columns(
        pl.len().over("step").alias("ranks"), pl.col("start_ns").min().over("step").alias("begins")
    )
    caused = arrived.filter(pl.col("waited_for").is_not_null()).select(
        pl.col("waited_for").alias("rank"), "step", "waited_ns"
    )
    late = late_ranks(arrived).filter(pl.col("caused_ns") > 0)
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
        .with_columns(
            pl.col(
                "transfer_ns", "waiting_ns", "collectives", "caused_ns", "late_ns", "late_count"
            ).fill_null(0)
        )
    )
    return RANK_STEPS.conform(found.sort("begins", "step", "rank"))


def _sums(arrived: pl.DataFrame) -> pl.DataFrame:
    return arrived.group_by(_KEY).agg(
        pl.col("transfer_ns").sum(),
        pl.col("waited_ns").sum().alias("waiting_ns"),
        pl.len().cast(pl.Int64).alias("collectives"),
    )
