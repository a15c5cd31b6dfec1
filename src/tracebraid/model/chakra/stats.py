"""`ChakraStats`: what `.et` files hold, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

__all__ = ["ChakraStats"]


@dataclass(frozen=True, eq=False)
class ChakraStats:
    """What `.et` files hold, in numbers.

    Args:
        ranks: `CHAKRA_RANK_STATS`.
        nodes: `CHAKRA_NODE_STATS`.
        communication: `CHAKRA_COMMUNICATION_STATS`.
    """

    ranks: pl.DataFrame
    nodes: pl.DataFrame
    communication: pl.DataFrame
