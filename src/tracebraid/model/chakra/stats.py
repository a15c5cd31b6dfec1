"""`ChakraStats`: what `.et` files hold, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.model.finding import Finding

__all__ = ["ChakraStats"]


@dataclass(frozen=True, eq=False)
class ChakraStats:
    """What `.et` files hold, in numbers.

    Args:
        ranks: `CHAKRA_RANK_STATS`.
        nodes: `CHAKRA_NODE_STATS`.
        communication: `CHAKRA_COMMUNICATION_STATS`.
        findings: what was noticed in the files: of one that is damaged or cut off, what could not be counted.
    """

    ranks: pl.DataFrame
    nodes: pl.DataFrame
    communication: pl.DataFrame
    findings: tuple[Finding, ...] = ()
