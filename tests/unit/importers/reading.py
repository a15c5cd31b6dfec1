"""Small traces written to a folder and read again, and tables as plain rows that can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from tests.builders import Json, et_text, kineto_text, process_node, thread_node, write
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.column import Kind
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.schema import KINETO_TABLES
from tracebraid.model.timeline import Timeline

_JSON_COLUMNS = {("extra_args", "value"), ("other_events", "json")}


def timeline_of(folder: Path, events: list[Json], **members: Any) -> Timeline:
    """The timeline of these events; members of the file beside them by name."""
    return read_timeline(write(folder / "t.json", kineto_text(events, header=members)))


def timeline_of_bytes(folder: Path, data: bytes, name: str = "t.json") -> Timeline:
    """The timeline of a file with this content."""
    path = folder / name
    path.write_bytes(data)
    return read_timeline(path)


def trace_of(folder: Path, nodes: list[Json], schema: str = "1.1.1-chakra.0.0.4") -> ExecutionTrace:
    """The Execution Trace of these nodes below a process and a thread."""
    text = et_text([process_node(), thread_node(), *nodes], schema)
    return read_execution_trace(write(folder / "et.json", text))


def codes(findings: Iterable[Finding]) -> list[str]:
    """The codes of findings but for the rank that a small trace does not tell."""
    return [finding.code for finding in findings if finding.code != "rank-unknown"]


def rows(table: pl.DataFrame, *columns: str) -> list[dict[str, Any]]:
    """The rows without their nulls, of some columns or of all."""
    wanted = table.select(columns) if columns else table
    return [{key: value for key, value in row.items() if value is not None} for row in wanted.to_dicts()]


def plain(timeline: Timeline) -> dict[str, list[dict[str, Any]]]:
    """All tables as rows; JSON text as its value, as its blanks depend on the layout of the file."""
    return {
        table.name: [
            {
                key: _value(value) if (table.name, key) in _JSON_COLUMNS or kind is Kind.JSON else value
                for (key, value), kind in zip(row.items(), (c.kind for c in table.columns), strict=True)
            }
            for row in timeline.tables[table.name].to_dicts()
        ]
        for table in KINETO_TABLES
    }


def _value(text: str | None) -> object:
    return None if text is None else json.loads(text)
