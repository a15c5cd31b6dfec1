"""The answer of a query, and what a query may name, as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl
from rich.console import RenderableType
from rich.text import Text

from tracebraid.model.printable import printable
from tracebraid.model.quantities import number
from tracebraid.reports.fitted_table import Shown, fitted, table_of
from tracebraid.reports.names import cell

_NULL = "-"


def query_parts(frame: pl.DataFrame, top: int, width: int) -> list[RenderableType]:
    """Format the first rows with raw values: an expression of a query may have any name and unit."""
    rows = frame.head(top)
    columns = [
        Shown(name, name, not rows.get_column(name).dtype.is_numeric(), _cells(rows.get_column(name)))
        for name in rows.columns
    ]
    shown = fitted(columns, width)
    parts: list[RenderableType] = [_table(shown)]
    if frame.is_empty():
        parts.append(Text("No rows."))
    if frame.height > top:
        parts.append(
            Text("There are more rows: --top N prints the first N, --csv, --json and --parquet all.")
        )
    left_out = [printable(name) for name in rows.columns[len(shown) :]]
    if left_out:
        parts.append(Text(f"No room for: {', '.join(left_out)}. Select fewer columns, or write a file."))
    return parts


def names_table(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Tabulate names with their descriptions."""
    table = table_of("", [("name", "left"), ("meaning of a row, or result", "left")])
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def columns_table(rows: Sequence[tuple[str, str, str]]) -> RenderableType:
    """Tabulate the columns of a table: name, type and meaning."""
    table = table_of("", [("column", "left"), ("type", "left"), ("meaning", "left")])
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def _table(shown: Sequence[Shown]) -> RenderableType:
    table = table_of("", [(cell(column.heading), "left" if column.is_text else "right") for column in shown])
    for drawn, column in zip(table.columns, shown, strict=True):
        drawn.width = column.width
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(cell, cells))
    return table


def _cells(column: pl.Series) -> list[str]:
    return [_text(value) for value in column.to_list()]


def _text(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, float):
        return number(value) if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | dict):
        return printable(msgspec.json.encode(value).decode())
    return printable(str(value))
