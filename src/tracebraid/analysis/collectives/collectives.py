"""How long does each collective transfer, who came last, and how long did the others wait?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers.transfers import transfers
from tracebraid.model.answers import COLLECTIVES
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP

__all__ = ["collectives"]


def collectives(ranks: LinkedRanks, *, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """All collectives of a job: `COLLECTIVES`.

    Args:
        ranks: the ranks of a job.
        annotation: what marks a step.
    """
    del annotation  # It was asked for when members were taken of each rank.
    return COLLECTIVES.conform(transfers(ranks))
