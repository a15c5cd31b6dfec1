"""A report as text and tables for a terminal."""

from __future__ import annotations

import polars as pl
from rich.console import RenderableType
from rich.text import Text

from tracebraid.model.report.parts import DataTable, Facts, Missing, Note, Part, Report, Section
from tracebraid.reports.answers.answer_cells import cell_text, heading
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.relative_moments import relative_moments
from tracebraid.reports.text import printable

__all__ = ["DEFAULT_ROWS", "report_parts"]

DEFAULT_ROWS = 10
"""Rows of each table."""
_KEPT = 3
"""Columns of a table that stay, however narrow the terminal."""


def report_parts(report: Report, width: int, rows: int = DEFAULT_ROWS) -> list[RenderableType]:
    """The texts and tables of a report; of a chart what it shows in a sentence, and its table.

    Args:
        report: of a run, or of a comparison.
        width: characters in a line.
        rows: of each table at most.
    """
    parts: list[RenderableType] = [Text(printable(report.title), style="bold")]
    for section in report.sections:
        parts += _section(section, width, rows)
    return parts


def _section(section: Section, width: int, rows: int) -> list[RenderableType]:
    title = printable(section.title)
    parts: list[RenderableType] = [Text(""), Text(title, style="bold"), Text("=" * min(width, len(title)))]
    if section.lead:
        parts.append(Text(printable(section.lead)))
    parts.append(Text(""))
    for part in section.parts:
        parts += _part(part, width, rows)
    return parts


def _part(part: Part, width: int, rows: int) -> list[RenderableType]:
    if isinstance(part, Facts):
        most = max((len(label) for label, _ in part.rows), default=0)
        lines = [f"{label:<{most}}  {text}" for label, text in part.rows]
        return [*(Text(printable(line)) for line in lines), Text("")]
    if isinstance(part, Note):
        return [Text(printable(f"{part.level.value}: {part.text}"))]
    if isinstance(part, Missing):
        return [Text(printable(f"missing: {part.title}: {part.lacks}. {part.capture}"))]
    if isinstance(part, DataTable):
        return _table(part, width, rows)
    summary = Text(printable(f"{part.title}: {part.summary}"))
    return [summary] if part.table is None else [summary, *_table(part.table, width, rows)]


def _table(table: DataTable, width: int, rows: int) -> list[RenderableType]:
    names = list(table.frame.columns if table.columns is None else table.columns)
    shown = relative_moments(table).select(names).head(rows)
    heads = [_head(name, shown.schema[name]) for name in names]
    cells = [
        [cell_text(name, value, 0) for name, value in zip(names, row, strict=True)]
        for row in shown.iter_rows()
    ]
    drawn = fitted_table(printable(table.title), heads, cells, width, kept=_KEPT)
    left = table.frame.height - shown.height + table.left_out
    if left:
        drawn.caption = f"{left:,} more row{'' if left == 1 else 's'}"
    return [drawn]


def _head(name: str, dtype: pl.DataType) -> Head:
    is_text = dtype == pl.String
    return Head(heading(name), "left" if is_text else "right", shortens=is_text)
