"""A report as text: it fits, hides nothing that steers a terminal, and has the figures of analyze."""

from __future__ import annotations

import io

import polars as pl
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.unit.reports.runs import demo_results, planted_results
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.report.parts import Chart, ChartKind, DataTable, Facts, Missing, Note, Report, Section
from tracebraid.reports.renderers.as_text import report_parts
from tracebraid.reports.sections.run_report import run_report

HOSTILE = "[bold]\x1b[31m\u202ekernel" + "k" * 10_000
SCHEMA = Table("made", "Made.", (Column("name", Kind.TEXT, "a name"), Column("a_ns", Kind.INT, "a time")))


def _text(report: Report, width: int = 100, rows: int = 3) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, emoji=False)
    for part in report_parts(report, width, rows):
        console.print(part, soft_wrap=isinstance(part, str))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_it_fits_into_the_terminal(width: int) -> None:
    text = _text(run_report(planted_results(), "run"), width)
    assert max(map(cell_len, text.splitlines())) <= width


def test_a_name_does_not_steer_the_terminal() -> None:
    frame = pl.DataFrame({"name": [HOSTILE] * 5, "a_ns": [1, 2, 3, 4, 5]})
    table = DataTable("t", HOSTILE, frame, SCHEMA, left_out=4)
    chart = Chart("c", ChartKind.BARS, HOSTILE, HOSTILE, {}, table=table)
    parts = (Facts([("a", HOSTILE)]), Note(HOSTILE), Missing(HOSTILE, HOSTILE, HOSTILE), table, chart)
    text = _text(Report(HOSTILE, (Section("s", HOSTILE, parts, HOSTILE),)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" in text


def test_rows_that_are_not_shown_are_counted() -> None:
    frame = pl.DataFrame({"name": ["x"] * 50, "a_ns": range(50)})
    table = DataTable("t", "T", frame, SCHEMA, left_out=1_000)
    assert "1,047" in _text(Report("r", (Section("s", "S", (table,)),)), rows=3)


def test_figures_are_those_of_the_answer() -> None:
    assert "200.5 µs" in _text(run_report(planted_results(), "run"))


def test_the_demo_is_text_too() -> None:
    assert len(_text(run_report(demo_results(), "demo")).splitlines()) > 50
