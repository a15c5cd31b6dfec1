"""Which rank is late at which collective, and what made it late?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.ranks.lateness.arrivals import arrivals, late_ranks
from tracebraid.analysis.ranks.lateness.causes import with_causes
from tracebraid.analysis.ranks.lateness.rank_segments import rank_segments
from tracebraid.model.answers import LATE_ARRIVALS
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP

__all__ = ["LEAST_LATENESS_NS", "late_arrivals"]

LEAST_LATENESS_NS = 20_000
"""Lateness in ns below which a collective is left out: what a few launches take; a chosen value."""


def late_arrivals(
    ranks: LinkedRanks, annotation: str = PROFILER_STEP, least_ns: int = LEAST_LATENESS_NS
) -> pl.DataFrame:
    """The late rank of each collective, and the cause: `model.answers.LATE_ARRIVALS`.

    What the rank did since the collective before it of the same group is compared with what the other ranks did since
    theirs. Lateness that it brought along from earlier collectives is its `origin_rank`'s.

    Args:
        ranks: the ranks of a job.
        annotation: what marks a step.
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
