"""Columns of one chunk of a file, as plain numpy arrays and interned text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tracebraid.model.column import INT64_NULL


class Interner(dict[object, int]):
    """Gives each new value the next number; `interner[value]` is its number."""

    def __missing__(self, value: object) -> int:
        number = self[value] = len(self)
        return number


class Interned(Struct):
    """A column of repeating values: a number per row (-1: missing) and the values by number."""

    codes: NDArray[np.int32]
    values: list[object]


ColumnData: TypeAlias = NDArray[np.int64] | NDArray[np.float64] | Interned


class TableData(Struct):
    """Some rows of a table: its columns by name, all of one length."""

    rows: int = 0
    columns: dict[str, ColumnData] = field(default_factory=dict)

    def ints(self, name: str) -> NDArray[np.int64]:
        """A column of integers."""
        column = self.columns[name]
        assert not isinstance(column, Interned), f"{name} is a column of integers"
        return column.astype(np.int64, copy=False)


def interned_column(values: Iterable[object], missing: tuple[object, ...] = (None,)) -> Interned:
    """Intern hashable values; those that mean "missing" get the number -1."""
    interner = Interner()
    codes = np.fromiter(map(interner.__getitem__, values), dtype=np.int32)
    absent = [interner[value] for value in missing if value in interner]
    if absent:
        present = [value for value in interner if value not in missing]
        renumber = np.full(len(interner), -1, dtype=np.int32)
        renumber[[interner[value] for value in present]] = np.arange(len(present), dtype=np.int32)
        return Interned(renumber[codes], list(present))
    return Interned(codes, list(interner))


def numbered(codes: NDArray[np.int32], values: Sequence[object]) -> Interned:
    """A column of values by number; None is missing, and equal values get one number."""
    interner = Interner()
    numbers = numbers_of(values, interner)
    if len(interner) == len(values):
        return Interned(codes, list(values))
    return Interned(np.append(numbers, -1).astype(np.int32)[codes], list(interner))


def numbers_of(values: Sequence[object], interner: Interner) -> NDArray[np.int64]:
    """The number of each value; -1 of None."""
    found = (-1 if value is None else interner[value] for value in values)
    return np.fromiter(found, dtype=np.int64, count=len(values))


def renamed(column: Interned, rename: Callable[[object], object]) -> Interned:
    """The column with each of its values renamed; values that are equal then get one number."""
    names = [rename(value) for value in column.values]
    if names == column.values:
        return column
    interner = Interner()
    renumber = np.array([*(interner[name] for name in names), -1], dtype=np.int32)
    return Interned(renumber[column.codes], list(interner))


def joined(first: ColumnData, second: ColumnData) -> ColumnData:
    """Two runs of rows of one column, in turn."""
    if isinstance(first, Interned) and isinstance(second, Interned):
        number = {value: i for i, value in enumerate(first.values)}
        renumber = np.array([number.setdefault(v, len(number)) for v in second.values] + [-1], dtype=np.int32)
        return Interned(np.concatenate([first.codes, renumber[second.codes]]), list(number))
    assert not isinstance(first, Interned) and not isinstance(second, Interned)
    return np.concatenate([first, second])


def first_of(first: ColumnData, second: ColumnData) -> ColumnData:
    """Coalesce two columns of integers or repeating values."""
    if isinstance(first, Interned) and isinstance(second, Interned):
        both = joined(first, second)
        assert isinstance(both, Interned), "two interned columns join to one"
        first_codes, second_codes = np.split(both.codes, [len(first.codes)])
        return Interned(np.where(first_codes < 0, second_codes, first_codes), both.values)
    assert not isinstance(first, Interned) and not isinstance(second, Interned)
    chosen: NDArray[np.int64] = np.where(first == INT64_NULL, second, first).astype(np.int64)
    return chosen


def missing_column(like: ColumnData, rows: int) -> ColumnData:
    """A column of that many missing values, of the type of another one."""
    if isinstance(like, Interned):
        return Interned(np.full(rows, -1, dtype=np.int32), [])
    if like.dtype == np.float64:
        return np.full(rows, np.nan, dtype=np.float64)
    return np.full(rows, INT64_NULL, dtype=np.int64)


def int_column(values: list[int | None]) -> NDArray[np.int64]:
    """Convert to int64; None and values out of range become `INT64_NULL`."""
    try:
        return np.array(values, dtype=np.int64)
    except (TypeError, OverflowError, ValueError):
        fits = (v if v is not None and -(2**63) < v < 2**63 else INT64_NULL for v in values)
        return np.fromiter(fits, dtype=np.int64, count=len(values))


def float_column(values: list[float | None]) -> NDArray[np.float64]:
    """Floats; None becomes NaN."""
    return np.asarray(values, dtype=np.float64)


def missing(data: ColumnData) -> NDArray[np.bool_]:
    """Boolean mask of rows without a value."""
    if isinstance(data, Interned):
        return data.codes < 0
    return np.isnan(data) if data.dtype == np.float64 else data == INT64_NULL


def taken(data: TableData, rows: NDArray[np.int64]) -> TableData:
    """Some rows of a table."""
    columns: dict[str, ColumnData] = {
        name: Interned(column.codes[rows], column.values) if isinstance(column, Interned) else column[rows]
        for name, column in data.columns.items()
    }
    return TableData(len(rows), columns)
