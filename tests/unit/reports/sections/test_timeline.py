"""The timeline's section has every slice of the step, or says what is missing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted import Host, PlannedJob
from tracebraid.api.reporting import timeline_views
from tracebraid.api.reporting.options import ReportOptions
from tracebraid.api.reporting.run_results import run_results
from tracebraid.model.graph.segment_kind import WAITING_KINDS
from tracebraid.model.report.parts import Chart, ChartKind, Level, Missing, Note
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.report.timeline_tables import TIMELINE_TABLES
from tracebraid.reports.sections.timeline import timeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = PlannedJob(2, hosts=[Host("a"), Host("b", ahead_ns=7_000_000)])
    for number in range(1, 4):
        with job.step(number):
            job.compute(100_000)
            job.collective("allreduce", transfer=50_000)
    folder: Path = tmp_path_factory.mktemp("ranks")
    job.write(folder)
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> RunResults:
    return run_results(tracebraid.open(folder), ReportOptions(steps="2", with_graph=True))


def _chart(results: RunResults) -> Chart:
    return next(part for part in timeline(results).parts if isinstance(part, Chart))


def test_the_chart_has_all_tables_and_a_table_that_says_the_same(results: RunResults) -> None:
    chart = _chart(results)
    assert chart.kind is ChartKind.TIMELINE
    assert {f"timeline-{name}" for name in chart.frames} == set(TIMELINE_TABLES)
    slices = chart.frames["slices"]
    assert chart.table is not None
    assert chart.table.frame.height + chart.table.left_out == slices.height
    assert chart.table.frame.get_column("duration_ns").is_sorted(descending=True)
    assert set(chart.table.frame.get_column("rank")) == {0, 1}


def test_the_critical_path_lies_on_slices_of_the_step(results: RunResults) -> None:
    frames, path = _chart(results).frames, results.path_of_steps
    assert path is not None
    segments = path.segments.filter(pl.col("step") == "ProfilerStep#2")
    assert frames["path"].get_column("duration_ns").sum() == segments.get_column("duration_ns").sum()
    starts = frames["slices"].get_column("start_ns")
    ends = starts + frames["slices"].get_column("duration_ns")
    waiting = [kind.value for kind in WAITING_KINDS]
    on_slices = frames["path"].drop_nulls("slice").filter(~pl.col("kind").cast(pl.String).is_in(waiting))
    assert on_slices.height > 0
    for slice_, start, duration in on_slices.select("slice", "start_ns", "duration_ns").iter_rows():
        assert starts[slice_] - 1 <= start
        assert start + duration <= ends[slice_] + 1


def test_what_is_merged_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch, results: RunResults) -> None:
    monkeypatch.setattr(timeline_views, "MOST_SLICES", 12)
    few = run_results(tracebraid.open(folder), ReportOptions(steps="2", with_graph=False))
    assert len([part for part in timeline(few).parts if isinstance(part, Note)]) == 1
    assert [part for part in timeline(results).parts if isinstance(part, Note)] == []
    events, slices = (few.views["timeline-ranks"].get_column(name).sum() for name in ("events", "slices"))
    assert slices < events == results.views["timeline-ranks"].get_column("slices").sum()


def test_an_unknown_clock_is_a_warning(results: RunResults) -> None:
    ranks = results.views["timeline-ranks"].with_columns(is_aligned=pl.Series([True, False]))
    unknown = RunResults(
        results.path, results.ranks, [], {}, {}, (), views={**results.views, "timeline-ranks": ranks}
    )
    notes = [part for part in timeline(unknown).parts if isinstance(part, Note)]
    assert [note.level for note in notes] == [Level.WARNING]


def test_without_slices_it_says_what_is_missing() -> None:
    (part,) = timeline(RunResults("x", [0], [], {}, {}, ())).parts
    assert isinstance(part, Missing)
