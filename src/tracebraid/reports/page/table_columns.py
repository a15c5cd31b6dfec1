"""What the page's tables know of their columns."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracebraid.model.answer_sentences import CODES_OF_COLUMNS, code_name
from tracebraid.model.report.parts import DataTable
from tracebraid.reports.answers.answer_cells import heading

__all__ = ["table_columns"]


def table_columns(table: DataTable) -> list[dict[str, Any]]:
    """Of each column that is shown: its name, heading, meaning, type, and the names of its codes.

    The page formats values by their columns' names and types, as `reports.answers.answer_cells` does.
    """
    names = table.frame.columns if table.columns is None else table.columns
    docs = {column.name: column.doc for column in table.schema.columns}
    return [
        {
            "name": name,
            "heading": heading(name),
            "doc": docs.get(name, ""),
            "type": _type(table.frame.schema[name]),
            "codes": _codes(name) if table.frame.schema[name] == pl.String else {},
        }
        for name in names
    ]


def _type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.List | pl.Array):
        return "list"
    if dtype == pl.Boolean:
        return "bool"
    return "int" if dtype.is_integer() else "float" if dtype.is_float() else "text"


def _codes(name: str) -> dict[str, str]:
    return {str(code.value): code_name(code) for kind in CODES_OF_COLUMNS.get(name, ()) for code in kind}
