"""Columns of many chunks as one polars frame of a declared table."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracebraid.importers.columns import ColumnData, Interned, TableData
from tracebraid.model.column import INT64_NULL, Column, Kind, Table

__all__ = ["frame_of"]

_FEW_ROWS = 256
"""Up to so many rows, texts are put in place one by one: a query for that costs as much (35 µs on a server)."""


def frame_of(table: Table, chunks: list[TableData]) -> pl.DataFrame:
    """One frame with the table's schema from the rows of all chunks; columns that a chunk lacks are null there."""
    rows = sum(chunk.rows for chunk in chunks)
    if rows == 0:
        return table.empty()
    schema = table.polars_schema()
    return pl.DataFrame([_series(column, schema[column.name], chunks, rows) for column in table.columns])


def _series(column: Column, dtype: pl.DataType, chunks: list[TableData], rows: int) -> pl.Series:
    present = [chunk.columns.get(column.name) for chunk in chunks]
    if all(data is None for data in present):
        missing: pl.Series = pl.Series(column.name, [None], dtype=dtype).new_from_index(0, rows)
        return missing
    if column.kind in (Kind.INT, Kind.FLOAT):
        return _numbers(column, present, chunks)
    return _interned(column, dtype, present, chunks)


def _numbers(column: Column, present: list[ColumnData | None], chunks: list[TableData]) -> pl.Series:
    is_int = column.kind is Kind.INT
    null: Any = np.int64(INT64_NULL) if is_int else np.float64("nan")
    values = _joined(
        [
            np.full(chunk.rows, null) if data is None else data
            for data, chunk in zip(present, chunks, strict=True)
        ]
    )
    numbers = pl.Series(column.name, values)
    if not is_int:
        return numbers.fill_nan(None)
    absent = values == INT64_NULL
    return numbers.set(pl.Series(absent), None) if absent.any() else numbers


def _interned(
    column: Column, dtype: pl.DataType, present: list[ColumnData | None], chunks: list[TableData]
) -> pl.Series:
    number: dict[object, int] = {}
    parts = []
    for data, chunk in zip(present, chunks, strict=True):
        if data is None:
            parts.append(np.full(chunk.rows, -1, dtype=np.int32))
            continue
        assert isinstance(data, Interned), f"{column.name} is an interned column"
        renumber = [number.setdefault(value, len(number)) for value in data.values]
        parts.append(np.array([*renumber, -1], dtype=np.int32)[data.codes])
    texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in number]
    codes = _joined(parts)
    if len(codes) <= _FEW_ROWS:
        of_codes = [*texts, None]
        return pl.Series(column.name, [of_codes[code] for code in codes.tolist()], dtype=dtype)
    values, rows = pl.Series(column.name, texts or [None], dtype=dtype), pl.Series(codes)
    absent = codes < 0
    if absent.any():
        rows = rows.set(pl.Series(absent), None)
    found: pl.Series = values.gather(rows)
    return found


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
