"""Sections of tables: every answer has a table or says what it lacks; ids are unique; figures are those of analyze."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.reports.runs import demo_results, planted_results
from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.api.reporting.asked import ASKED, ASKED_OF_JOB
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.report.parts import Chart, DataTable, Facts, Level, Missing, Note, Part, Report
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.formulas import FORMULAS
from tracebraid.reports.relative_moments import relative_moments
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


def test_every_asked_analysis_has_its_formula() -> None:
    assert {asked.name for asked in (*ASKED, *ASKED_OF_JOB)} <= set(FORMULAS)
    known = {analysis.name for analysis in ANALYSES} | {analysis.name for analysis in JOB_ANALYSES}
    assert set(FORMULAS) - known == {"advice", "critical_path", "sweep"}


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
    facts = next(part for part in report.sections[0].parts if isinstance(part, Facts))
    labels = dict(facts.rows)
    assert {"devices", "ranks", "steps", "captured"} <= set(labels)
    assert "0-1" in labels["ranks"]
