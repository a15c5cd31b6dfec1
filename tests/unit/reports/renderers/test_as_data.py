"""A report as JSON: everything of the parts, codes, no figure in words."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from tests.unit.reports.runs import demo_results, planted_results
from tracebraid.cli.output import json_bytes
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.questions.analysis import Need
from tracebraid.model.report.parts import (
    Chart,
    ChartKind,
    DataTable,
    Facts,
    Level,
    Missing,
    Note,
    Report,
    Section,
)
from tracebraid.reports.renderers.as_data import report_data
from tracebraid.reports.sections.run_report import run_report

HOSTILE = '</script><b>"\u202e\x1b[31m' + "k" * 10_000
SCHEMA = Table("made", "Made.", (Column("name", Kind.TEXT, "a name"), Column("a_ns", Kind.INT, "a time")))


def _read(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_bytes(report_data(report)))
    return found


def _parts(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for section in data["sections"] for part in section["parts"] if part["type"] == kind]


def test_every_part_is_there_with_its_values() -> None:
    frame = pl.DataFrame({"name": [HOSTILE, None], "a_ns": [1, 2]})
    table = DataTable("t", "T", frame, SCHEMA, ("name",), "f", 3, 7)
    chart = Chart("c", ChartKind.BARS, "C", "s", {"bars": frame}, {"unit": "ns"}, "f", table)
    parts = (
        Facts([("a", "b")]),
        Note("n", Level.ERROR, "code"),
        Missing("m", "l", "c", "shapes"),
        table,
        chart,
    )
    made = _read(Report(HOSTILE, (Section("s", "S", parts, "lead"),)))
    assert made["title"] == HOSTILE
    assert [part["type"] for part in made["sections"][0]["parts"]] == [
        "facts",
        "note",
        "missing",
        "table",
        "chart",
    ]
    found = _parts(made, "table")[0]
    assert found["rows"] == [{"name": HOSTILE, "a_ns": 1}, {"name": None, "a_ns": 2}]
    assert (found["shown"], found["left_out"], found["start_ns"]) == (["name"], 3, 7)
    assert found["columns"][1] == {"name": "a_ns", "meaning": "a time"}
    assert _parts(made, "note")[0]["code"] == "code"
    assert _parts(made, "chart")[0]["frames"]["bars"]["a_ns"] == [1, 2]
    assert _parts(made, "chart")[0]["table"]["id"] == "t"


def test_what_lacks_in_a_run_has_codes() -> None:
    needs = {need.value for need in Need}
    missing = _parts(_read(run_report(demo_results(), "demo")), "missing")
    assert missing
    assert all(part["code"] is None or part["code"] in needs or "-" in part["code"] for part in missing)
    assert any(part["code"] == Need.DEVICE_WORK.value for part in missing)


def test_rows_of_a_run_are_those_of_its_answers() -> None:
    results = planted_results()
    tables = {part["id"]: part for part in _parts(_read(run_report(results, "run")), "table")}
    assert tables["rows-kernels"]["rows"] == results.answers["kernels"].frame.to_dicts()
