"""Values at some rows, distinct rows, and the nearest wanted row among the ancestors of each in a tree."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

_Ints = NDArray[np.int64]

_NONE = -1


def at_rows(values: pl.Series, rows: _Ints) -> pl.Series:
    """The values at some rows; null for -1.

    For small tables `Series.gather` takes seven times as long: it makes a query of it.
    """
    index, absent = pl.Series(rows.astype(np.uint32)), rows < 0
    return values[index.set(pl.Series(absent), None) if absent.any() else index]


def distinct_rows(*columns: _Ints) -> tuple[list[_Ints], _Ints]:
    """The distinct rows of some columns of equal length, in order, and the number of each row among them.

    `np.unique` of several columns takes five times as long: it compares rows of bytes.
    """
    order = np.lexsort(columns[::-1])
    ordered = [column[order] for column in columns]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.any([column[1:] != column[:-1] for column in ordered], axis=0)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(begins) - 1
    return [column[begins] for column in ordered], number


def nearest_rows(parent: _Ints, wanted: NDArray[np.bool_]) -> _Ints:
    """For each row the nearest wanted row among itself and its ancestors; -1 where there is none.

    Pointers are doubled: after k rounds each has come up to 2**k rows far.
    """
    target = np.where(wanted | (parent == _NONE), np.arange(len(parent)), parent)
    while not np.array_equal(further := target[target], target):
        target = further
    found: _Ints = np.where(wanted[target], target, _NONE)
    return found


def nearest_ancestors(parent: _Ints, wanted: NDArray[np.bool_]) -> _Ints:
    """For each row the nearest wanted row among its ancestors, itself left out; -1 where there is none."""
    found: _Ints = np.where(parent == _NONE, _NONE, nearest_rows(parent, wanted)[np.maximum(parent, 0)])
    return found
