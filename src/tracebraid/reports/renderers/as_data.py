"""A report as plain data for JSON: the values as they are, with the meaning of each column, and codes."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracebraid.model.report.parts import Chart, DataTable, Facts, Missing, Note, Part, Report
from tracebraid.reports.machine import rows_data

__all__ = ["report_data"]


def report_data(report: Report) -> dict[str, Any]:
    """The report as plain data: times in ns, moments on the unix clock, codes by their values.

    Args:
        report: of a run, or of a comparison.
    """
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
    if isinstance(part, Note):
        return {"type": "note", "level": part.level.value, "code": part.code or None, "text": part.text}
    if isinstance(part, Missing):
        texts = {"title": part.title, "lacks": part.lacks, "capture": part.capture}
        return {"type": "missing", "code": part.code or None, **texts}
    return _table(part) if isinstance(part, DataTable) else _chart(part)


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
    """By column: a chart may have many rows."""
    return frame.to_dict(as_series=False)
