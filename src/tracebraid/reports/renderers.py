"""Renderers of a report: each takes its parts, and makes a page, text for a terminal, or JSON."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.console import RenderableType
from rich.text import Text

from tracebraid.model.printable import printable
from tracebraid.model.report import (
    Card,
    Cards,
    Chart,
    DataTable,
    Facts,
    Missing,
    Note,
    Part,
    Report,
    Section,
    Verdict,
)
from tracebraid.reports.answers import cell_text, heading
from tracebraid.reports.fitted_table import Head, captioned, fitted_table
from tracebraid.reports.machine import rows_data
from tracebraid.reports.relative_moments import relative_moments


def report_data(report: Report) -> dict[str, Any]:
    """Return the report as plain data: times in ns, moments on the unix clock, codes as values."""
    return {
        "title": report.title,
        "sections": [
            {
                "id": section.id,
                "title": section.title,
                "lead": section.lead,
                "parts": [_part(part) for part in section.parts],
            }
            for section in report.sections
        ],
    }


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Facts):
        return {"type": "facts", "facts": [{"label": label, "text": text} for label, text in part.rows]}
    if isinstance(part, Verdict):
        return {"type": "verdict", "lines": list(part.lines)}
    if isinstance(part, Cards):
        return {"type": "cards", "cards": [_card(card) for card in part.cards]}
    if isinstance(part, Note):
        return {"type": "note", "level": part.level.value, "code": part.code or None, "text": part.text}
    if isinstance(part, Missing):
        texts = {"title": part.title, "lacks": part.lacks, "capture": part.capture}
        return {"type": "missing", "code": part.code or None, **texts}
    return _table(part) if isinstance(part, DataTable) else _chart(part)


def _card(card: Card) -> dict[str, Any]:
    rows = [{"label": label, "text": text} for label, text in card.rows]
    return {"title": card.title, "figure": card.figure, "rows": rows, "change": card.change}


def _table(table: DataTable) -> dict[str, Any]:
    docs = {column.name: column.doc for column in table.schema.columns}
    return {
        "type": "table",
        "id": table.id,
        "title": table.title,
        "schema": table.schema.name,
        "formula": table.formula or None,
        "start_ns": table.start_ns,
        "left_out": table.left_out,
        "shown": list(table.columns or table.frame.columns),
        "columns": [{"name": name, "meaning": docs.get(name, "")} for name in table.frame.columns],
        "rows": rows_data(table.frame),
    }


def _chart(chart: Chart) -> dict[str, Any]:
    return {
        "type": "chart",
        "id": chart.id,
        "kind": chart.kind.value,
        "title": chart.title,
        "summary": chart.summary,
        "formula": chart.formula or None,
        "options": dict(chart.options),
        "frames": {name: _columns(frame) for name, frame in chart.frames.items()},
        "table": None if chart.table is None else _table(chart.table),
    }


def _columns(frame: pl.DataFrame) -> dict[str, list[Any]]:
    """Return data by column, as a chart may have many rows."""
    return frame.to_dict(as_series=False)


DEFAULT_ROWS = 10
"""Default maximum rows of each table."""
_KEPT = 3
"""Number of leading columns that are kept on the narrowest terminal."""


def report_parts(report: Report, width: int, rows: int = DEFAULT_ROWS) -> list[RenderableType]:
    """Format a report as texts and tables; a chart becomes a sentence and its table."""
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
        parts += _part_text(part, width, rows)
    return parts


def _part_text(part: Part, width: int, rows: int) -> list[RenderableType]:
    if isinstance(part, Facts):
        most = max((len(label) for label, _ in part.rows), default=0)
        lines = [f"{label:<{most}}  {text}" for label, text in part.rows]
        return [*(Text(printable(line)) for line in lines), Text("")]
    if isinstance(part, Verdict):
        return [*(Text(printable(line)) for line in part.lines), Text("")]
    if isinstance(part, Cards):
        return [line for card in part.cards for line in _card_text(card)]
    if isinstance(part, Note):
        return [Text(printable(f"{part.level.value}: {part.text}"))]
    if isinstance(part, Missing):
        return [Text(printable(f"missing: {part.title}: {part.lacks}. {part.capture}"))]
    if isinstance(part, DataTable):
        return _table_text(part, width, rows)
    summary = Text(printable(f"{part.title}: {part.summary}"))
    return [summary] if part.table is None else [summary, *_table_text(part.table, width, rows)]


def _card_text(card: Card) -> list[Text]:
    rows = [f"    {label}: {text}" for label, text in (*card.rows, ("change", card.change))]
    return [
        Text(printable(f"{card.title}: {card.figure}")),
        *(Text(printable(row)) for row in rows),
        Text(""),
    ]


def _table_text(table: DataTable, width: int, rows: int) -> list[RenderableType]:
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
        captioned(drawn, f"{left:,} more row{'' if left == 1 else 's'}")
    return [drawn]


def _head(name: str, dtype: pl.DataType) -> Head:
    is_text = dtype == pl.String
    return Head(heading(name), "left" if is_text else "right", shortens=is_text)
