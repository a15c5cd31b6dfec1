"""How long does each rank wait at each collective, and for whom?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers.transfers import members_with_waits
from tracebraid.model.answers import COLLECTIVE_RANKS
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP

__all__ = ["collective_ranks"]


def collective_ranks(ranks: LinkedRanks, *, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The part of each rank in each collective: `COLLECTIVE_RANKS`.

    Args:
        ranks: the ranks of a job.
        annotation: what marks a step.
    """
    del annotation  # It was asked for when members were taken of each rank.
    members = members_with_waits(ranks).with_columns(pl.col("method").alias("transfer_method"))
    return COLLECTIVE_RANKS.conform(members.sort("rank", "arrival_ns", "event_id"))
