"""What the page's tables know of their columns."""

from __future__ import annotations

from typing import Any

from tracebraid.model.report.parts import DataTable
from tracebraid.reports.answers.answer_cells import MOMENTS, heading

__all__ = ["table_columns"]


def table_columns(table: DataTable) -> list[dict[str, Any]]:
    """Of each column that is shown: its name, heading, meaning, and whether it holds a moment.

    The page formats numbers by their columns' names, as `reports.answers.answer_cells` does.
    """
    names = table.frame.columns if table.columns is None else table.columns
    docs = {column.name: column.doc for column in table.schema.columns}
    return [
        {"name": name, "heading": heading(name), "doc": docs.get(name, ""), "moment": name in MOMENTS}
        for name in names
    ]
