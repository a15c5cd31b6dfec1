"""What the page's tables know of their columns."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracebraid.model.answer_sentences import CODES_OF_COLUMNS, code_name
from tracebraid.model.report.parts import DataTable
from tracebraid.reports.answers.answer_cells import heading

__all__ = ["table_columns"]


def table_columns(table: DataTable) -> list[dict[str, Any]]:
    """Of each column that is shown: its name, heading, type, meaning, and the names of its codes.

    The page formats values by their columns' names and types, as `reports.answers.answer_cells` does.
    """
    names = table.frame.columns if table.columns is None else table.columns
    docs = {column.name: column.doc for column in table.schema.columns}
    return [_column(table.frame.get_column(name), docs.get(name, "")) for name in names]


def _column(series: pl.Series, doc: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": series.name,
        "heading": heading(series.name),
        "type": _type(series.dtype),
    }
    codes = _codes(series)
    return found | ({"doc": doc} if doc else {}) | ({"codes": codes} if codes else {})


def _type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.List | pl.Array):
        return "list"
    if dtype == pl.Boolean:
        return "bool"
    return "int" if dtype.is_integer() else "float" if dtype.is_float() else "text"


def _codes(series: pl.Series) -> dict[str, str]:
    """Names of those codes that the column holds; several in a cell are parted by commas."""
    if series.name not in CODES_OF_COLUMNS or series.dtype != pl.String:
        return {}
    held = {part for text in series.unique().drop_nulls() for part in text.split(",")}
    codes = (code for kind in CODES_OF_COLUMNS[series.name] for code in kind)
    return {str(code.value): code_name(code) for code in codes if str(code.value) in held}
