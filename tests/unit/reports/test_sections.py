"""Sections of tables: every answer has a table or says what it lacks; ids are unique; figures are those of analyze."""

from __future__ import annotations

import dataclasses
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tracebraid
from tests.planted.programs import GEMM_NS, Program
from tests.unit.reports.runs import demo_results, planted_results, single_results
from tests.unit.reports.test_renderers import _text
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.compare.compare import compare
from tracebraid.analysis.compare.profiles import rank_profile
from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.job import DiffChange, DiffPart
from tracebraid.model.answers.time import HostActivity, IdleCause
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.questions import Caution, CautionCode, Comparison, GateOutcome
from tracebraid.model.report import Chart, DataTable, Facts, Level, Missing, Note, Part, Report, RunResults
from tracebraid.reports.diff import changed_ops_table, diff_parts_for_people, parts_table, verdict_line
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.page.page import page
from tracebraid.reports.relative_moments import relative_moments
from tracebraid.reports.sections.comparison import comparison_report
from tracebraid.reports.sections.run_report import run_report
from tracebraid.reports.sections.trust import trust

RUNS = pytest.mark.parametrize("results", [planted_results, demo_results], ids=["planted", "demo"])


def _parts(report: Report) -> list[Part]:
    return [part for section in report.sections for part in section.parts]


def _tables(report: Report) -> list[DataTable]:
    parts = _parts(report)
    twins = [part.table for part in parts if isinstance(part, Chart) and part.table is not None]
    return [part for part in parts if isinstance(part, DataTable)] + twins


@RUNS
def test_ids_are_unique_and_fit_into_a_page(results: Callable[[], RunResults]) -> None:
    report = run_report(results(), "a run")
    ids = [section.id for section in report.sections]
    ids += [part.id for part in _parts(report) if isinstance(part, DataTable | Chart)]
    ids += [part.table.id for part in _parts(report) if isinstance(part, Chart) and part.table is not None]
    assert [id for id, count in Counter(ids).items() if count > 1] == []
    assert all(id.replace("-", "").isalnum() and id == id.lower() for id in ids)


@RUNS
def test_shown_columns_are_of_the_frame_and_of_the_schema(results: Callable[[], RunResults]) -> None:
    for table in _tables(run_report(results(), "a run")):
        assert set(table.columns or ()) <= set(table.frame.columns), table.id
        known = {column.name for column in table.schema.columns}
        assert set(table.columns or ()) <= known, table.id


def test_every_analysis_on_a_page_has_its_formula() -> None:
    assert [found.name for found in all_analyses() if found.on_page and not found.formula] == []


def test_rows_of_a_table_are_those_of_the_answer() -> None:
    results = planted_results()
    tables = {table.id: table for table in _tables(run_report(results, "a run"))}
    kernels = tables["rows-kernels"]
    assert kernels.frame.get_column("total_ns").to_list() == [4 * 50_123, 4 * 50_123]
    assert "total_ns" in (kernels.columns or ())


def test_moments_count_from_the_start_of_their_rank() -> None:
    results = planted_results()
    table = next(table for table in _tables(run_report(results, "a run")) if table.id == "rows-step-times")
    shown = relative_moments(table).get_column("start_ns").to_list()
    rows = zip(table.frame.get_column("rank"), table.frame.get_column("start_ns"), strict=True)
    assert shown == [start - results.starts[rank] for rank, start in rows]
    assert min(shown) == 0


def test_what_the_demo_lacks_is_said_once_for_each_need_of_a_section() -> None:
    report = run_report(demo_results(), "demo")
    for section in report.sections:
        missing = [(part.title, part.lacks) for part in section.parts if isinstance(part, Missing)]
        assert len(missing) == len(set(missing))
    assert any(isinstance(part, Missing) for part in _parts(report))


def test_findings_stand_among_what_to_trust_those_that_are_faults_first() -> None:
    found = (
        Finding.of(FindingCode.WINDOW_CHOSEN, "b", windows=2, names="x, y", chosen="y"),
        Finding.of(FindingCode.TRUNCATED, "a"),
    )
    results = replace(demo_results(), findings=found, notes={FindingCode.WINDOW_CHOSEN})
    levels = [part.level for part in trust(results).parts if isinstance(part, Note)]
    assert levels.index(Level.WARNING) < len(levels) - 1
    assert Level.WARNING in levels


def test_many_findings_are_bounded() -> None:
    found = tuple(Finding.of(FindingCode.TRUNCATED, f"file {n}", str(n)) for n in range(500))
    many = tuple(replace(finding, count=n + 1, path="") for n, finding in enumerate(found))
    parts = trust(replace(demo_results(), findings=many)).parts
    assert len(parts) < 100


def test_the_head_says_devices_ranks_and_steps() -> None:
    report = run_report(planted_results(), "a run")
    run = next(section for section in report.sections if section.id == "run")
    facts = next(part for part in run.parts if isinstance(part, Facts))
    labels = dict(facts.rows)
    assert {"devices", "ranks", "steps", "captured"} <= set(labels)
    assert "0-1" in labels["ranks"]


@pytest.mark.parametrize(
    ("versions", "shown"),
    [
        pytest.param(["2.4 or newer", "2.10 or newer"], "2.10 or newer", id="bounds"),
        pytest.param(["2.4 or newer", "2.13.0+cpu"], "2.13.0+cpu", id="named"),
        pytest.param(["2.4 or newer", "2.0 - 2.1"], "2.0 - 2.1", id="between"),
    ],
)
def test_the_torch_of_a_run_is_what_is_known_closest(versions: list[str], shown: str) -> None:
    results = planted_results()
    infos = [replace(results.infos[0], torch=version) for version in versions]
    report = run_report(replace(results, infos=infos), "a run")
    run = next(section for section in report.sections if section.id == "run")
    facts = next(part for part in run.parts if isinstance(part, Facts))
    assert dict(facts.rows)["torch"] == shown


def test_the_manifest_names_the_torch_of_a_run() -> None:
    manifest = json.loads((tracebraid.demo_path() / "manifest_0.json").read_text("utf-8"))
    assert {info.torch for info in demo_results().infos} == {manifest["torch"]}


@RUNS
def test_what_is_left_out_has_each_reason_once(results: Callable[[], RunResults]) -> None:
    section = run_report(results(), "a run").sections[-1]
    assert section.id == "left-out"
    reasons = [part.lacks for part in section.parts if isinstance(part, Missing)]
    assert len(reasons) == len(set(reasons)) == len(section.parts)
    assert not [reason for reason in reasons if reason.endswith(".")]


@pytest.mark.slow
def test_columns_that_say_the_same_in_each_row_are_left_out() -> None:
    report = run_report(single_results(), "a run")
    shown = {table.id: set(table.columns or ()) for table in _tables(report)}
    assert not [table for table, columns in shown.items() if "rank" in columns]
    assert not shown["rows-step-times"] & {"rank", "warmup"}
    assert "span_ns" in shown["rows-step-times"]


# --- The report of a comparison: parts add up, all that changed is there, cautions have codes --------


STEPS = [2 * GEMM_NS + 100 * number for number in range(8)]


@pytest.fixture(scope="module")
def found() -> Comparison:
    """The same program, slower, with an op added."""
    slower = [int(span * 1.5) for span in STEPS]
    runs = [
        program.scene(steps).linked()
        for program, steps in ((Program(), STEPS), (dataclasses.replace(Program(), added=True), slower))
    ]
    return tracebraid.diff(runs[0], runs[1])


def _notes(report: Report) -> dict[str, Level]:
    parts = [part for section in report.sections for part in section.parts]
    return {part.code: part.level for part in parts if isinstance(part, Note)}


def _compared_tables(report: Report) -> dict[str, DataTable]:
    parts = [part for section in report.sections for part in section.parts]
    twins = [part.table for part in parts if isinstance(part, Chart) and part.table is not None]
    return {table.id: table for table in [*twins, *(part for part in parts if isinstance(part, DataTable))]}


@pytest.mark.slow
def test_the_parts_add_up_to_the_difference(found: Comparison) -> None:
    tables = _compared_tables(comparison_report(found))
    for id in ("rows-part-totals", "rows-parts"):
        assert tables[id].frame.get_column("difference_ns").sum() == found.difference_ns, id


def test_what_was_added_stands_in_the_tables(found: Comparison) -> None:
    tables = _compared_tables(comparison_report(found))
    outermost = found.changed_ops.filter("outermost")
    assert outermost.height > 0
    assert (
        tables["rows-changed-ops"].frame.get_column("name").to_list()
        == outermost.get_column("name").to_list()
    )
    assert tables["rows-changed-kernels"].frame.height == found.changed_kernels.height


def test_verdict_gate_cautions_and_findings_have_codes(found: Comparison) -> None:
    few = Caution(CautionCode.FEW_STEPS, {"a": 1, "b": 2})
    cut = Finding.of(FindingCode.TRUNCATED, "a")
    report = comparison_report(replace(found, cautions=(few,)), limit=0.05, findings=[cut])
    notes = _notes(report)
    assert notes[found.verdict.value] is Level.WARNING
    assert found.gate(0.05) is GateOutcome.NOT_JUDGED
    assert notes[GateOutcome.NOT_JUDGED.value] is Level.ERROR
    assert {CautionCode.FEW_STEPS.value, FindingCode.TRUNCATED.value} <= set(notes)
    assert GateOutcome.NOT_JUDGED.value not in _notes(comparison_report(found))


@pytest.mark.slow
def test_runs_that_are_equal_have_a_report(found: Comparison) -> None:
    linked = Program().scene(STEPS).linked()
    report = comparison_report(tracebraid.diff(linked, linked))
    assert [section.id for section in report.sections][:3] == ["verdict", "origin", "changes"]


def test_it_becomes_a_page_and_text(found: Comparison) -> None:
    report = comparison_report(found, "</title><script>alert(1)</script>")
    assert "<script>alert(1)" not in page(report)
    assert len(_text(report).splitlines()) > 20


@pytest.mark.slow
def test_ranks_are_compared_in_a_chart() -> None:
    runs = []
    for factor in (1.0, 1.2):
        linked = [Program().scene([int(ns * factor) for ns in STEPS], rank, 2).linked() for rank in range(2)]
        runs.append([rank_profile(rank) for rank in linked])
    report = comparison_report(compare([runs[0]], [runs[1]]))
    chart = next(part for part in report.sections[0].parts if isinstance(part, Chart))
    assert chart.frames["bars"].height == 2


# --- The report of `tracebraid diff`: what stands in it, in which order, and that it fits ------------


@pytest.fixture(scope="module")
def diff_found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The same program with an op removed."""
    runs = []
    for name, program in (("a", dataclasses.replace(Program(), added=True)), ("b", Program())):
        folder = tmp_path_factory.mktemp(name)
        program.scene(STEPS).write(folder)
        runs.append(folder)
    return tracebraid.diff(runs[0], runs[1])


def with_cautions(diff_found: Comparison, *cautions: Caution) -> Comparison:
    return replace(diff_found, cautions=cautions)


def cost(run: str, share: str) -> Caution:
    return Caution(
        CautionCode.PROFILER_COST, {"run": run, "host_late": "11 %", "events": "7", "share": share}
    )


def cells(table: Table, column: int) -> list[str]:
    return list(map(str, table.columns[column].cells))


def printed(parts: Sequence[Text | Table], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.slow
def test_programs_that_differ_are_named_first_and_the_report_is_short(diff_found: Comparison) -> None:
    differ = Caution(CautionCode.PROGRAMS_DIFFER, {"share": "1 %"})
    few = Caution(CautionCode.FEW_STEPS, {"a": 1, "b": 1})
    parts = diff_parts_for_people(with_cautions(diff_found, few, differ), 10, 100)
    assert differ.sentence in str(parts[0])
    whole = diff_parts_for_people(with_cautions(diff_found, few), 10, 100)
    assert str(whole[0]) == verdict_line(diff_found)
    assert len(printed(parts, 100)) < len(printed(whole, 100))
    assert few.sentence in "".join(str(part) for part in parts if isinstance(part, Text))


def test_a_caution_about_both_runs_is_one_line_with_the_figures_of_both(diff_found: Comparison) -> None:
    parts = diff_parts_for_people(with_cautions(diff_found, cost("a", "5 %"), cost("b", "6 %")), 10, 100)
    lines = [str(part) for part in parts if isinstance(part, Text) and "11 %" in str(part)]
    assert len(lines) == 1
    assert "5 %" in lines[0]
    assert "6 %" in lines[0]


def test_what_a_run_does_not_have_is_no_time_of_0(diff_found: Comparison) -> None:
    table = parts_table(diff_found, 200)
    rows = dict(zip(cells(table, 0), zip(cells(table, 1), cells(table, 2), strict=True), strict=True))
    before, after = rows["  aten::dropout"]
    assert after == "-"
    assert before[0].isdigit()


def test_codes_are_shown_by_their_names(diff_found: Comparison) -> None:
    row: dict[str, Any] = {
        "part": DiffPart.EXPOSED_COMMUNICATION.value,
        "cause": IdleCause.HOST_LATE.value,
        "host_activity": HostActivity.COMPUTED.value,
        "a_ns": 5,
        "b_ns": 9,
        "difference_ns": 4,
    }
    extra = pl.DataFrame([row], schema_overrides={"a_ns": pl.Int64})
    parts = pl.concat([diff_found.parts, extra], how="diagonal_relaxed")
    names = cells(parts_table(replace(diff_found, parts=parts), 200), 0)
    assert code_name(DiffPart.EXPOSED_COMMUNICATION) in names
    assert any(code_name(IdleCause.HOST_LATE) in name for name in names)
    assert not any(code in name for code in (row["cause"], row["part"]) for name in names)


def test_ops_without_a_difference_are_hidden_unless_there_is_nothing_else(diff_found: Comparison) -> None:
    changed = diff_found.changed_ops.filter("outermost")
    assert not changed.is_empty()
    equal = pl.lit(0, dtype=pl.Int64).alias("difference_ns")
    other = changed.head(1).with_columns(equal, pl.lit("aten::view").alias("name"))
    both = changed_ops_table(replace(diff_found, ops=pl.concat([changed, other])), 10, 200)
    alone = changed_ops_table(replace(diff_found, ops=other), 10, 200)
    assert both is not None
    assert alone is not None
    assert "aten::view" not in cells(both, 1)
    assert cells(alone, 1) == ["aten::view"]
    assert cells(alone, 0) == [code_name(DiffChange.REMOVED)]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_table_fits_and_no_name_is_folded(width: int) -> None:
    heads = [Head("op", "left", shortens=True), Head("difference"), Head("path", "left", shortens=True)]
    rows = [["op" * 100, "+5 ms", "path" * 50], ["short", "-1 ms", ""]]
    table = fitted_table("Title", heads, rows, width, kept=2)
    lines = printed([table], width)
    assert max(map(len, (line.rstrip() for line in lines))) <= width
    assert sum("ms" in line for line in lines) == 2
    assert len(lines) == 3 + len(rows) + (len(table.columns) < len(heads))


@pytest.mark.slow
def test_real_reports_fit(diff_found: Comparison, tmp_path: Path) -> None:
    long = dataclasses.replace(Program(), added=True).scene(STEPS)
    host, stream = long.thread("other"), long.stream(7)
    host.until(STEPS[0])
    with host.op("aten::" + "long" * 40, dims=[[2, 3]]):
        host.launch(stream, "kernel" * 40, 100)
    long.write(tmp_path)
    (tmp_path / "plain").mkdir()
    Program().scene(STEPS).write(tmp_path / "plain")
    compared = tracebraid.diff(tmp_path / "plain", tmp_path)
    tables = [part for part in diff_parts_for_people(compared, 10, 80) if isinstance(part, Table)]
    assert max(len(line.rstrip()) for line in printed(tables, 80)) <= 80
