"""The latency of communication, as it was fitted to the transfers of each group and type."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.collective_fit import collective_fit
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["communication_latency"]

_KEY = ["group", "type"]


def communication_latency(ranks: LinkedRanks) -> pl.DataFrame:
    """Columns group, type and alpha_ns: the time of a transfer that does not depend on its size, where it is fitted.

    Args:
        ranks: the ranks, linked with each other.
    """
    fit = collective_fit(ranks).select(*_KEY, "alpha_ns").drop_nulls()
    return fit.unique(_KEY, keep="first", maintain_order=True)
