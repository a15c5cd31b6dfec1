"""Names that match a pattern, each distinct name searched once."""

from __future__ import annotations

import polars as pl

__all__ = ["names_match"]


def names_match(names: pl.Series, pattern: str) -> pl.Series:
    """Whether each name matches a regular expression; null does not.

    Args:
        names: a categorical or text column: names repeat, and those of kernels are long.
        pattern: the regular expression.
    """
    distinct = names.unique().drop_nulls()
    found = distinct.filter(distinct.cast(pl.String).str.contains(pattern))
    return names.is_in(found.implode()).fill_null(value=False)
