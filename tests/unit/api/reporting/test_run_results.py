"""What a report asks of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.planted import PlannedJob, Scene, write_ranks
from tracebraid.analysis.catalog import all_analyses, job_analyses
from tracebraid.api.job_answers import job_rank_inputs
from tracebraid.api.reporting import ReportOptions, chosen_steps, run_results
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.analysis import Analysis, OnPage
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.report import Note, RunResults
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.sections.run_report import sweep


def _scene(rank: int = 0) -> Scene:
    scene = Scene(rank=rank)
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, 5):
        with host.step(number):
            host.spend(10_000 * number)
            with host.op("aten::mm", dims=[[2, 3], [3, 4]]):
                host.launch(stream, "gemm", 50_000)
            host.synchronize(stream)
    return scene


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("ranks")
    write_ranks(folder, [_scene(0), _scene(1)])
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> RunResults:
    return run_results(tracebraid.open(folder))


@pytest.mark.parametrize("analysis", all_analyses(), ids=lambda analysis: analysis.name)
def test_a_page_picks_rows_by_columns_of_the_answer(analysis: Analysis) -> None:
    on_page = analysis.on_page or OnPage()
    columns = {column.name for column in analysis.table.columns}
    assert set(on_page.by) <= columns
    assert not on_page.is_series or "ts_ns" in columns


@pytest.mark.full
@pytest.mark.slow
def test_answers_equal_those_of_analyze(folder: Path, results: RunResults) -> None:
    job = tracebraid.open(folder)
    assert results.left_out == {}
    for name, answer in results.answers.items():
        asked = tracebraid.analyze(name, job)
        assert answer.frame.equals(asked.frame), name
        assert answer.lacks == asked.lacks, name


def test_the_path_adds_up_and_the_advice_is_there(results: RunResults) -> None:
    assert results.path_of_steps is not None
    assert results.without_graph == ""
    assert results.advice is not None
    assert results.advice.ranks == (0, 1)
    assert results.starts.keys() == {0, 1}
    assert results.start_ns == min(results.starts.values())


def test_the_error_of_the_model_stands_beside_what_it_predicts(results: RunResults) -> None:
    assert results.path_of_steps is not None
    section = sweep(results)
    assert section is not None
    said = [part.text for part in section.parts if isinstance(part, Note)]
    assert said == error_lines(results.path_of_steps.replay_error) != []


@pytest.mark.slow
def test_without_a_graph_the_results_say_why(folder: Path) -> None:
    found = run_results(tracebraid.open(folder), ReportOptions(with_graph=False))
    assert found.path_of_steps is None
    assert found.sweep is None
    assert found.without_graph


@pytest.mark.slow
def test_a_rank_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    write_ranks(tmp_path, [_scene(0), _scene(1)])
    job = tracebraid.open(tmp_path, unreadable="skip")
    broken = next(files.kineto for files in job.files if files.rank == 1)
    assert broken is not None
    Path(broken).write_bytes(b"")
    found = run_results(job)
    assert found.ranks == [0]
    assert [finding.code for finding in found.findings] == [FindingCode.RANK_UNREADABLE]


def test_no_rank_that_can_be_read_is_an_error(tmp_path: Path) -> None:
    write_ranks(tmp_path, [_scene(0)])
    job = tracebraid.open(tmp_path)
    Path(str(job.files[0].kineto)).write_bytes(b"")
    with pytest.raises(InputError):
        run_results(job)


@pytest.mark.full
@pytest.mark.slow
def test_an_execution_trace_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    for path in sorted(tracebraid.demo_path().iterdir()):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    job = tracebraid.open(tmp_path, unreadable="skip")
    Path(str(job.files[1].et)).write_bytes(b"{")
    found = run_results(job, ReportOptions(with_graph=False))
    assert found.ranks == [0, 1]
    assert found.coverages[0].has_et
    assert not found.coverages[1].has_et
    assert FindingCode.RANK_UNREADABLE in {finding.code for finding in found.findings}


@pytest.mark.slow
def test_one_rank_and_a_rank_that_is_not_there(folder: Path) -> None:
    assert run_results(tracebraid.open(folder), ReportOptions(rank=1)).ranks == [1]
    with pytest.raises(ArgumentError):
        run_results(tracebraid.open(folder), ReportOptions(rank=7))


def test_the_shown_step_has_the_median_length(results: RunResults) -> None:
    times = results.answers["step_times"].frame.filter(
        pl.col("rank") == 0, ~pl.col("warmup").fill_null(False)
    )
    spans = sorted(times.get_column("span_ns").to_list())
    shown = times.filter(pl.col("step") == results.steps[0]).item(0, "span_ns")
    assert shown == spans[(len(spans) - 1) // 2]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("2", [2]), ("4,1-2", [1, 2, 4]), ("ProfilerStep#3", [3]), ("1 - 9", None), ("9", None), ("", None)],
)
def test_steps_are_named_by_number_range_or_name(
    results: RunResults, wanted: str, expected: list[int] | None
) -> None:
    times = results.answers["step_times"].frame.filter(pl.col("rank") == 0)
    if expected is None:
        with pytest.raises(ArgumentError):
            chosen_steps(times, wanted)
        return
    assert list(chosen_steps(times, wanted)) == [f"ProfilerStep#{number}" for number in expected]


@pytest.mark.slow
def test_a_rank_alone_has_the_answers_of_the_job(tmp_path: Path) -> None:
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(100_000)
            job.collective("allreduce", transfer=50_000)
    job.write(tmp_path)
    results = run_results(tracebraid.open(tmp_path), ReportOptions(rank=1, with_graph=False))
    alone = tracebraid.open(sorted(tmp_path.iterdir())[1])
    for analysis in (found for found in job_analyses() if found.on_page):
        answer = results.answers[analysis.name]
        expected = tracebraid.analyze(analysis.name, alone)
        assert answer.frame.equals(expected.frame), analysis.name
        assert answer.lacks == expected.lacks


@pytest.mark.full
@pytest.mark.slow
def test_segments_are_found_where_ranks_may_be_late(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def counted(*arguments: Any) -> Any:
        given.append(len(arguments[2]))
        return job_rank_inputs(*arguments)

    monkeypatch.setattr("tracebraid.api.reporting.job_rank_inputs", counted)
    for rank in (None, 1):
        run_results(tracebraid.open(folder), ReportOptions(rank=rank, with_graph=False))
    assert given == [0, 0, 1]
