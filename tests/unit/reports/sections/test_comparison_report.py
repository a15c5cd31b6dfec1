"""The report of a comparison: parts add up, all that changed is there, cautions have codes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tracebraid
from tests.planted.programs import GEMM_NS, Program
from tests.unit.reports.renderers.test_as_text import _text
from tracebraid.api.comparing import diff_of_profiles, profile_of_rank
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.questions.comparison import Caution, CautionCode, Comparison, GateOutcome
from tracebraid.model.report.parts import Chart, DataTable, Level, Note, Report
from tracebraid.reports.page.page import page
from tracebraid.reports.sections.comparison import comparison_report

STEPS = [2 * GEMM_NS + 100 * number for number in range(8)]


@pytest.fixture(scope="module")
def found() -> Comparison:
    """The same program, slower, with an op added."""
    slower = [int(span * 1.5) for span in STEPS]
    runs = [
        program.scene(steps).linked()
        for program, steps in ((Program(), STEPS), (replace(Program(), added=True), slower))
    ]
    return tracebraid.diff(runs[0], runs[1])


def _notes(report: Report) -> dict[str, Level]:
    parts = [part for section in report.sections for part in section.parts]
    return {part.code: part.level for part in parts if isinstance(part, Note)}


def _tables(report: Report) -> dict[str, DataTable]:
    parts = [part for section in report.sections for part in section.parts]
    twins = [part.table for part in parts if isinstance(part, Chart) and part.table is not None]
    return {table.id: table for table in [*twins, *(part for part in parts if isinstance(part, DataTable))]}


def test_the_parts_add_up_to_the_difference(found: Comparison) -> None:
    tables = _tables(comparison_report(found))
    for id in ("rows-part-totals", "rows-parts"):
        assert tables[id].frame.get_column("difference_ns").sum() == found.difference_ns, id


def test_what_was_added_stands_in_the_tables(found: Comparison) -> None:
    tables = _tables(comparison_report(found))
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
    assert found.gate(0.05) is GateOutcome.REGRESSION
    assert notes[GateOutcome.REGRESSION.value] is Level.ERROR
    assert {CautionCode.FEW_STEPS.value, FindingCode.TRUNCATED.value} <= set(notes)
    assert GateOutcome.REGRESSION.value not in _notes(comparison_report(found))


def test_runs_that_are_equal_have_a_report(found: Comparison) -> None:
    linked = Program().scene(STEPS).linked()
    report = comparison_report(tracebraid.diff(linked, linked))
    assert [section.id for section in report.sections][:3] == ["verdict", "origin", "changes"]


def test_it_becomes_a_page_and_text(found: Comparison) -> None:
    report = comparison_report(found, "</title><script>alert(1)</script>")
    assert "<script>alert(1)" not in page(report)
    assert len(_text(report).splitlines()) > 20


def test_ranks_are_compared_in_a_chart() -> None:
    runs = []
    for factor in (1.0, 1.2):
        linked = [Program().scene([int(ns * factor) for ns in STEPS], rank, 2).linked() for rank in range(2)]
        runs.append([profile_of_rank(rank) for rank in linked])
    report = comparison_report(diff_of_profiles(runs[0], runs[1]))
    chart = next(part for part in report.sections[0].parts if isinstance(part, Chart))
    assert chart.frames["bars"].height == 2
