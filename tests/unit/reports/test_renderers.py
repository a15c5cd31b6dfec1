"""A report as JSON: everything of the parts, codes, no figure in words."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.unit.reports.runs import demo_results, planted_results
from tracebraid.cli.output import json_bytes
from tracebraid.model.analysis import Need
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.coverage import Count, Coverage, OrphanKind, OrphanReason, Orphans
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding, reason_sentence
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.report import Chart, ChartKind, DataTable, Facts, Level, Missing, Note, Report, Section
from tracebraid.reports.machine import coverage_data, file_info_data, finding_data, rows_data
from tracebraid.reports.renderers import report_data, report_parts
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


# --- A report as text: it fits, hides nothing that steers a terminal, and has the figures of an ------


STEERING = "[bold]\x1b[31m\u202ekernel" + "k" * 10_000


def _text(report: Report, width: int = 100, rows: int = 3) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, emoji=False)
    for part in report_parts(report, width, rows):
        console.print(part, soft_wrap=isinstance(part, str))
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 160])
def test_it_fits_into_the_terminal(width: int) -> None:
    text = _text(run_report(planted_results(), "run"), width)
    assert max(map(cell_len, text.splitlines())) <= width


def test_a_name_does_not_steer_the_terminal() -> None:
    frame = pl.DataFrame({"name": [STEERING] * 5, "a_ns": [1, 2, 3, 4, 5]})
    table = DataTable("t", STEERING, frame, SCHEMA, left_out=4)
    chart = Chart("c", ChartKind.BARS, STEERING, STEERING, {}, table=table)
    parts = (Facts([("a", STEERING)]), Note(STEERING), Missing(STEERING, STEERING, STEERING), table, chart)
    text = _text(Report(STEERING, (Section("s", STEERING, parts, STEERING),)))
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


# --- Results as plain data: the keys that programs read ----------------------------------------------


LEDGER = Coverage(
    host_ops=Count(1000, 990, {"record_function_id": 990}),
    et_nodes=Count(995, 990, {}),
    gpu_events=Count(50, 49, {"correlation": 48, "external_id": 1}),
    gpu_time_ns=(2000, 1500),
    orphans=(
        Orphans(OrphanKind.HOST_OP, OrphanReason.SEVERAL, 10),
        Orphans(OrphanKind.GPU_EVENT, OrphanReason.NO_CALL, 1),
    ),
    has_et=True,
)


def plain(data: Any) -> Any:
    """The data as JSON gives it back."""
    return json.loads(json.dumps(data))


def test_the_ledger_has_the_documented_keys() -> None:
    data = plain(coverage_data(3, LEDGER))
    assert data["rank"] == 3
    assert data["host_ops"] == {"total": 1000, "linked": 990, "by_method": {"record_function_id": 990}}
    assert data["gpu_events"] == {
        "total": 50,
        "attributed": 49,
        "by_method": {"correlation": 48, "external_id": 1},
    }
    assert data["gpu_time_ns"] == {"total": 2000, "attributed": 1500}
    assert [(one["reason"], one["count"]) for one in data["orphans"]] == [("several", 10), ("no-call", 1)]
    assert [one["sentence"] for one in data["orphans"]] == [
        reason_sentence(one.reason) for one in LEDGER.orphans
    ]


def test_the_ledger_says_its_share_and_what_each_orphan_is() -> None:
    data = plain(coverage_data(3, LEDGER))
    assert data["coverage"] == 0.75
    assert [one["kind"] for one in data["orphans"]] == ["host_op", "gpu_event"]


def test_a_finding_keeps_its_place_and_count() -> None:
    finding = Finding(FindingCode.EVENT_WITHOUT_TIME, "a.json", "byte 120", 3)
    assert plain(finding_data(finding)) == {
        "code": "event-without-time",
        "message": finding.message,
        "path": "a.json",
        "where": "byte 120",
        "count": 3,
    }


def test_rows_are_objects_with_nulls() -> None:
    frame = pl.DataFrame({"step": [None, "a"], "n": [1, 2]})
    assert plain(rows_data(frame)) == [{"step": None, "n": 1}, {"step": "a", "n": 2}]


def test_file_info_is_plain_data() -> None:
    info = FileInfo(
        path="a.json",
        kind="kineto-trace",
        size_bytes=12,
        schema="schemaVersion 1",
        torch="2.4 or newer",
        devices=("A100",),
        rank=None,
        world_size=2,
        start_ns=5,
        span_ns=6,
        steps=("ProfilerStep#1",),
        counts={"cpu_op": 3},
        findings=(Finding(FindingCode.NO_STEPS),),
    )
    data = plain(file_info_data(info))
    assert data["devices"] == ["A100"]
    assert data["rank"] is None
    assert data["steps"] == ["ProfilerStep#1"]
    assert data["counts"] == {"cpu_op": 3}
    assert data["findings"][0]["code"] == "no-steps"
    assert set(data) == {*FileInfo.__struct_fields__}
