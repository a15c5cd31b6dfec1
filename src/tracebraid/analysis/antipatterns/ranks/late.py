"""Ranks that come late to collectives for another reason than that they compute more."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.ranks.gathered import collective_sites, step_compute
from tracebraid.analysis.antipatterns.ranks.sites import at_sites
from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.model.collectives.codes import BETWEEN_TWO
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.detector import JobDetector

__all__ = ["LATE_DETECTOR", "LEAST_WAITING_NS", "late_ranks"]

LEAST_WAITING_NS = 100_000
"""Waiting of a rank for another in a step below which it is left out: what some late launches take; a chosen value."""

_PAIR = ["rank", "step", "waited_for"]


def late_ranks(ranks: LinkedRanks) -> pl.DataFrame:
    """Waiting for a rank in collectives of a step, where that computes too little more to explain it.

    If the late rank were not late, a rank that waits for it would be done earlier by its waiting at most. It counts
    where `LEAST_WAITING_NS` or more of it remain without what the late rank computes more in the step, which is
    `rank-imbalance`; and then all of it, as the bound has to.

    Args:
        ranks: the ranks of a job.
    """
    between_two = [kind.value for kind in BETWEEN_TWO]
    waiting = waits(ranks).filter(
        ~pl.col("type").is_in(between_two).fill_null(value=True)
        & (pl.col("waiting_ns") > 0)
        & pl.col("waited_for").is_not_null()
    )
    compute = ranks.of(step_compute).group_by("rank", "step").agg(pl.col("compute_ns").sum())
    own = waiting.join(compute, on=["rank", "step"], how="left", nulls_equal=True, maintain_order="left")
    both = own.join(
        compute.select(pl.col("rank").alias("waited_for"), "step", late_ns="compute_ns"),
        on=["waited_for", "step"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    more = (pl.col("late_ns") - pl.col("compute_ns")).max().over(_PAIR).fill_null(0).clip(0)
    unsure = pl.col("clock_width_ns").max().over(_PAIR).fill_null(0)
    unexplained = pl.col("waiting_ns").sum().over(_PAIR) - more
    found = both.filter((unexplained >= LEAST_WAITING_NS) & (unexplained > unsure))
    return at_sites(
        ranks.of(collective_sites),
        found.select(
            "rank",
            "event_id",
            "waiting_ns",
            pl.col("waiting_ns").alias("lost_ns"),
            pl.format("rank {} is late", "waited_for").alias("subject"),
        ),
    )


LATE_DETECTOR = JobDetector(
    "late-rank",
    "ranks that wait for others, which are late without computing more",
    "tracebraid analyze stragglers says which op, call or kernel makes which rank late; look for what only that rank "
    "does (reading, logging, saving, garbage collection), and for a slow host or device",
    late_ranks,
    (step_compute, collective_sites),
)
