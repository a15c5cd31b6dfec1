"""Rules about names, asked once for each distinct name instead of for every event that bears it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["by_name", "distinct_pairs", "flags_by_name"]

_Ints = NDArray[np.int64]


def by_name(names: pl.Series, rule: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """What a rule says of each name.

    Args:
        names: text or categoricals.
        rule: takes the distinct names as text, null among them where one is, and returns a value for each.
    """
    names = names.cast(pl.Categorical)
    if names.is_empty():
        return rule(names.cast(pl.String)).alias(names.name)
    distinct = names.unique()
    said = rule(distinct.cast(pl.String))
    # A null takes the slot behind all codes.
    codes, of_distinct = (_codes(column) for column in (names, distinct))
    slots = int(of_distinct.max(initial=-1)) + 2
    row = np.zeros(slots, dtype=np.int64)
    row[of_distinct] = np.arange(len(distinct))
    found: pl.Series = said.gather(row[codes])
    return found.alias(names.name)


def flags_by_name(names: pl.Series, flag: Callable[[pl.Expr], pl.Expr]) -> NDArray[np.bool_]:
    """Whether an expression over text holds for each name; false for null."""

    def rule(distinct: pl.Series) -> pl.Series:
        return distinct.to_frame("name").select(flag(pl.col("name")).fill_null(value=False)).to_series()

    found: NDArray[np.bool_] = by_name(names, rule).to_numpy()
    return found


def distinct_pairs(names: pl.Series, categories: pl.Series) -> tuple[pl.DataFrame, _Ints]:
    """The distinct pairs of a name and a category, and the row in them of each event.

    Args:
        names: text or categoricals.
        categories: the same; there are few of them.
    """
    columns = [names.cast(pl.Categorical), categories.cast(pl.Categorical)]
    name, category = (by_name(column, _numbers).to_numpy() for column in columns)
    factor = int(category.max(initial=0)) + 1
    key = name * factor + category
    first = np.full(int(key.max(initial=0)) + 1, -1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]
    chosen = first[first >= 0]
    row = np.cumsum(first >= 0) - 1
    pairs = pl.DataFrame([column.gather(pl.Series(chosen)) for column in columns])
    return pairs, row[key]


def _numbers(distinct: pl.Series) -> pl.Series:
    return pl.Series(np.arange(len(distinct)))


def _codes(names: pl.Series) -> _Ints:
    physical = names.to_physical().cast(pl.Int64)
    codes: _Ints = (physical.fill_null(-1) if physical.null_count() else physical).to_numpy()
    return codes
