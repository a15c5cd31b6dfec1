"""How do the clocks of the ranks go against each other?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.ranks import CLOCKS

__all__ = ["clocks"]


def clocks(ranks: LinkedRanks) -> pl.DataFrame:
    """The offset and drift of each rank's clock: `CLOCKS`.

    Args:
        ranks: the ranks of a job.
    """
    return CLOCKS.conform(ranks.clocks)
