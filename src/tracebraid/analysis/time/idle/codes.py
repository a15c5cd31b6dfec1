"""The numbers of causes and activities as the codes that answers hold."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.idle.cause_parts import CAUSES
from tracebraid.analysis.time.idle.host_context import ACTIVITIES

__all__ = ["in_codes"]


def in_codes() -> list[pl.Expr]:
    """The columns `cause` and `host_activity`, from the numbers in `cause` and `activity`; null stays null."""
    return [_code("cause", CAUSES).alias("cause"), _code("activity", ACTIVITIES).alias("host_activity")]


def _code(column: str, codes: tuple[str, ...]) -> pl.Expr:
    return pl.lit(pl.Series(codes)).gather(pl.col(column).cast(pl.UInt32))
