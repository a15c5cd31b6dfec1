"""Charts on the job hold what was planted, and the figures of the analyses."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.planted import Cause, Host, PlannedJob, Scene
from tests.planted.stragglers import LATE_NS
from tests.unit.reports.chart_runs import LATE, RANKS, STEPS, charts_of, straggling
from tests.unit.reports.runs import demo_results, planted_results
from tracebraid.analysis.flames import flame_frames
from tracebraid.api import reporting as timeline_views
from tracebraid.api.reporting import (
    FRAMES_ON_PAGE,
    MEMORY_BY_CATEGORY,
    ReportOptions,
    ViewOptions,
    frames_on_page,
    memory_view,
    run_results,
)
from tracebraid.model.answers.graph import SWEEP, WAITING_KINDS
from tracebraid.model.report import (
    TIMELINE_TABLES,
    Chart,
    ChartKind,
    DataTable,
    Level,
    Missing,
    Note,
    RunResults,
    sampled,
)
from tracebraid.reports.breakdown_bars import skew_lines
from tracebraid.reports.sections.changes import changes
from tracebraid.reports.sections.collectives import collectives
from tracebraid.reports.sections.idle import idle
from tracebraid.reports.sections.job import job
from tracebraid.reports.sections.memory import memory, stragglers
from tracebraid.reports.sections.roofline import roofline
from tracebraid.reports.sections.run_report import flame, head, heat, sweep
from tracebraid.reports.sections.timeline import timeline

PARTS = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")


def _many(results: RunResults, name: str, ranks: int) -> RunResults:
    """The results with each rank's rows of an answer repeated for other ranks; rank 7 is ten times as slow."""
    answer = results.answers[name]
    first = answer.frame.filter(pl.col("rank") == pl.col("rank").min())
    times = [column for column in first.columns if column.endswith("_ns") and column != "start_ns"]
    copies = [
        first.with_columns(pl.lit(rank).alias("rank"), *(pl.col(times) * (10 if rank == 7 else 1),))
        for rank in range(ranks)
    ]
    frame = answer.analysis.table.conform(pl.concat(copies))
    return replace(results, answers={**results.answers, name: replace(answer, frame=frame)})


@pytest.mark.full
@pytest.mark.slow
def test_parts_of_a_bar_add_up_to_the_span() -> None:
    results = straggling()[0]
    bars = charts_of(job(results))["job-breakdown"].frames["bars"]
    spans = results.answers["step_spread"].frame.filter(pl.col("part") == "span").get_column("mean_ns")
    assert bars.select(pl.sum_horizontal(PARTS)).to_series().to_list() == pytest.approx(spans.to_list())
    assert bars.height == RANKS


def test_where_each_step_is_doubtful_the_bars_are_means_of_all_steps() -> None:
    results = straggling()[0]
    spread = results.answers["step_spread"]
    without = replace(spread, frame=spread.frame.clear())
    bars = charts_of(job(replace(results, answers={**results.answers, "step_spread": without})))
    times = results.answers["step_times"].frame
    spans = times.group_by("rank", maintain_order=True).agg(pl.col("span_ns").mean())
    sums = bars["job-breakdown"].frames["bars"].select(pl.sum_horizontal(PARTS)).to_series()
    assert sums.to_list() == pytest.approx(spans.get_column("span_ns").to_list())


@pytest.mark.full
@pytest.mark.slow
def test_bars_of_step_times_are_the_medians_with_their_range() -> None:
    bars = charts_of(job(planted_results()))["job-step-time"].frames["bars"]
    times = planted_results().answers["step_times"].frame.filter(~pl.col("warmup"))
    spans = times.group_by("rank", maintain_order=True).agg(
        pl.col("span_ns").median().alias("value"),
        pl.col("span_ns").min().alias("low"),
        pl.col("span_ns").max().alias("high"),
    )
    assert bars.select("value", "low", "high").rows() == spans.select("value", "low", "high").rows()
    assert (bars.get_column("high") > bars.get_column("low")).all()


@pytest.mark.slow
def test_a_first_step_that_waits_for_another_recording_is_not_on_the_page(tmp_path: Path) -> None:
    planned = PlannedJob(2)
    planned.delay(1, Cause.SLEEP, LATE_NS)
    for step in (1, 2, 3):
        with planned.step(step):
            planned.compute(100_000)
            planned.collective(transfer=50_000)
    planned.write(tmp_path)
    results = run_results(tracebraid.open(tmp_path))
    steps, times = (results.answers[name].frame for name in ("rank_steps", "step_times"))
    assert times.select("rank", "step").rows() == [
        (0, "ProfilerStep#2"),
        (0, "ProfilerStep#3"),
        *((1, f"ProfilerStep#{step}") for step in (1, 2, 3)),
    ]
    bars = charts_of(job(results))["job-step-time"].frames["bars"]
    assert bars.select(pl.col("high").max()).item() <= steps.select(pl.col("span_ns").max()).item()
    notes = [part.text for part in head(results).parts if isinstance(part, Note)]
    assert any("the first step of rank 0, which waits for the others" in text for text in notes)
    breakdowns = pl.concat(list(tracebraid.open(tmp_path).ask(tracebraid.analyses.breakdown)))
    assert results.advice is not None
    (line,) = skew_lines(breakdowns, results.advice)
    assert "first step of rank 0 holds" in line


@pytest.mark.slow
def test_of_many_ranks_step_times_are_drawn_in_blocks_that_keep_the_slowest() -> None:
    results = _many(straggling()[0], "step_spread", 2_000)
    chart = charts_of(job(results))["job-step-time"]
    assert chart.kind is ChartKind.LINES
    lines = chart.frames["lines"]
    assert lines.height <= 256
    assert lines.get_column("first").to_list()[0] == 0
    assert lines.get_column("last").to_list()[-1] == 1_999
    spread = results.answers["step_spread"].frame.filter(pl.col("part") == "span")
    assert lines.get_column("high").max() == spread.get_column("median_ns").max()


def test_of_many_ranks_those_that_differ_most_fill_the_bars_and_it_is_said() -> None:
    section = job(_many(straggling()[0], "step_spread", 500))
    bars = charts_of(section)["job-breakdown"].frames["bars"]
    assert bars.height == 24
    assert "rank 7" in bars.get_column("label").to_list()
    assert section is not None
    assert any(isinstance(part, Note) for part in section.parts)


def test_cells_of_the_heat_map_are_the_steps_of_the_ranks() -> None:
    results = straggling()[0]
    chart = charts_of(heat(results))["heat-span"]
    cells = chart.frames["cells"]
    answer = results.answers["rank_steps"].frame
    assert cells.height == RANKS * STEPS == answer.height
    assert sorted(cells.get_column("value")) == sorted(answer.get_column("span_ns"))
    assert chart.options["y_labels"] == [str(rank) for rank in range(RANKS)]
    assert chart.options["x_labels"] == [str(step) for step in range(STEPS)]


def test_a_heat_map_of_many_ranks_shows_the_one_that_differs() -> None:
    section = heat(_many(straggling()[0], "rank_steps", 1_000))
    chart = charts_of(section)["heat-span"]
    assert len(chart.options["y_labels"]) == 48
    assert "7" in chart.options["y_labels"]


def test_who_waits_for_whom_names_the_planted_straggler() -> None:
    results, collectives_ = straggling()
    charts = charts_of(stragglers(results))
    caused = charts["stragglers-caused"].frames["bars"]
    assert caused.item(0, "label") == f"rank {LATE}"
    assert caused.item(0, "strong") == 1
    waits = charts["stragglers-waits"]
    cells = waits.frames["cells"]
    column = waits.options["x_labels"].index(str(LATE))
    waited = cells.filter(pl.col("x") == column).get_column("value").sum()
    planted = sum(wait for found in collectives_ if found.late == LATE for wait in found.waits.values())
    assert waited == pytest.approx(planted, rel=1e-3)


def test_time_in_collectives_is_transfer_and_waiting_of_the_analysis() -> None:
    results = straggling()[0]
    bars = charts_of(collectives(results))["collectives-time"].frames["bars"]
    totals = results.answers["collective_totals"].frame.sort("rank")
    for name in ("transfer_ns", "waiting_ns"):
        assert bars.get_column(name).to_list() == totals.get_column(name).to_list()
    points = charts_of(collectives(results))["collectives-bandwidth"].frames["points"]
    bandwidth = results.answers["collective_bandwidth"].frame
    assert sorted(points.get_column("y")) == sorted(bandwidth.get_column("bus_bytes_per_s").drop_nulls())


def test_what_a_single_rank_lacks_stands_where_stragglers_would() -> None:
    results = planted_results()
    section = stragglers(results)
    assert section is not None
    assert any(isinstance(part, Missing) for part in section.parts)
    assert not any(isinstance(part, Chart) for part in section.parts)


def test_without_answers_there_are_no_sections() -> None:
    empty = replace(planted_results(), answers={}, advice=None, sweep=None, without_graph="")
    assert [section(empty) for section in (job, heat, stragglers, collectives)] == [None] * 4


# --- Charts on what a rank does hold the figures of the analyses: memory, efficiency, idle time ------


@pytest.mark.full
@pytest.mark.slow
def test_memory_by_category_adds_up_to_what_is_allocated() -> None:
    results = demo_results()
    chart = charts_of(memory(results))["memory-time"]
    assert chart.kind is ChartKind.AREAS
    areas = chart.frames["areas"]
    names = [series["column"] for series in chart.options["series"]]
    peak = (
        results.answers["memory_peak"].frame.filter(pl.col("step").is_null()).get_column("peak_bytes").max()
    )
    assert areas.select(pl.sum_horizontal(names)).to_series().max() == peak


def test_the_view_of_memory_has_what_is_alive_at_each_moment() -> None:
    scene = Scene()
    host = scene.thread()
    with host.step(1):
        first = host.allocate(1_000)
        host.spend(10_000)
        host.allocate(5_000)
        host.spend(10_000)
        host.release(first)
    view = memory_view(scene.linked(), ViewOptions((), 1))[MEMORY_BY_CATEGORY]
    sums = view.group_by("ts_ns").agg(pl.col("bytes").sum()).sort("ts_ns")
    peak = sums.get_column("bytes").max()
    assert (peak, sums.item(-1, "bytes")) == (6_000, 5_000)


def test_without_the_view_memory_is_drawn_as_lines() -> None:
    chart = charts_of(memory(replace(demo_results(), views={})))["memory-time"]
    assert chart.kind is ChartKind.LINES
    assert chart.frames["lines"].height <= 801


def test_bars_of_what_is_alive_are_the_sums_of_the_analysis() -> None:
    results = demo_results()
    bars = charts_of(memory(results))["memory-alive"].frames["bars"]
    alive = results.answers["memory_at_peak"].frame.filter(pl.col("step").is_null(), pl.col("rank") == 0)
    assert bars.get_column("value").sum() == alive.get_column("bytes").sum()


def test_points_of_the_roofline_are_costs_under_the_ceiling() -> None:
    results = straggling()[0]
    charts = charts_of(roofline(results))
    points, curves = (charts["roofline-chart"].frames[name] for name in ("points", "curves"))
    costs = results.answers["op_costs"].frame.filter(pl.col("flops") > 0, pl.col("step").is_null())
    assert points.get_column("size").sum() == costs.get_column("device_ns").sum()
    roof = results.answers["roofline"].frame.drop_nulls("peak_flops_per_s")
    assert curves.get_column("y").max() == roof.get_column("peak_flops_per_s").max()
    ridge = curves.sort("x").filter(pl.col("y") == pl.col("y").max()).item(0, "x")
    peaks = roof.filter(pl.col("peak_flops_per_s") == pl.col("peak_flops_per_s").max()).row(0, named=True)
    assert ridge == pytest.approx(peaks["peak_flops_per_s"] / peaks["peak_bytes_per_s"])


def test_bars_of_idle_time_add_up_to_the_idle_time_of_the_analysis() -> None:
    results = straggling()[0]
    bars = charts_of(idle(results))["idle-causes"].frames["bars"]
    causes = results.answers["idle_causes"].frame
    assert (
        bars.select(pl.sum_horizontal("micro", "macro")).to_series().sum()
        == causes.get_column("idle_ns").sum()
    )


def test_parts_of_a_what_if_bar_add_up_to_the_gain_of_all_work() -> None:
    gains = {"gain_10_ns": [10.0, 5.0], "gain_50_ns": [50.0, 20.0], "gain_100_ns": [100.0, 20.0]}
    rows = pl.DataFrame(
        {"group_by": ["op", "kernel"], "scope": ["self", "self"], "name": ["a", "b"], **gains}
    )
    swept = SWEEP.conform(rows, fill_missing=True).with_columns(pl.lit(0.5).alias("gain_50"))
    bars = charts_of(sweep(replace(demo_results(), sweep=swept)))["what-if-gains"].frames["bars"]
    assert bars.select(pl.sum_horizontal("tenth", "half", "whole")).to_series().to_list() == [100.0, 20.0]


def test_where_there_is_no_graph_it_is_said_why() -> None:
    section = sweep(replace(demo_results(), sweep=None, without_graph="too many events"))
    assert section is not None
    missing = [part for part in section.parts if isinstance(part, Missing)]
    assert [part.lacks for part in missing] == ["too many events"]
    assert sweep(replace(demo_results(), sweep=None, without_graph="")) is None


def test_items_to_change_are_those_of_the_advice() -> None:
    results = straggling()[0]
    section = changes(results)
    assert results.advice is not None
    items = results.advice.items
    bars = charts_of(section)["changes-saving"].frames["bars"]
    high = items.get_column("saving_high_per_step_ns").head(bars.height).to_list()
    assert bars.select(pl.sum_horizontal("low", "interval")).to_series().to_list() == pytest.approx(high)
    assert section is not None
    table = next(part for part in section.parts if isinstance(part, DataTable))
    assert table.frame.height == items.height


def test_sampling_keeps_the_most_and_the_end() -> None:
    series = pl.DataFrame({"ts_ns": range(10_000), "value": [row % 997 for row in range(10_000)]})
    found = sampled(series, "value", 100)
    assert found.height <= 101
    assert found.get_column("value").max() == 996
    assert found.item(-1, "ts_ns") == 9_999
    assert found.get_column("ts_ns").is_sorted()
    assert sampled(series, "value", 10_000).equals(series)


# --- The timeline's section has every slice of the step, or says what is missing ---------------------


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


@pytest.mark.full
@pytest.mark.slow
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


@pytest.mark.full
@pytest.mark.slow
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


# --- The section of flame graphs: a tree for all that the traces hold, and what is missing for  ------


def with_frames(*frames: pl.DataFrame) -> RunResults:
    return replace(planted_results(), views=frames_on_page(pl.concat(frames)))


def test_the_graphs_have_the_time_of_all_ranks() -> None:
    results = planted_results()
    chart = flame(results).parts[0]
    assert isinstance(chart, Chart)
    assert list(chart.frames) == [entry["name"] for entry in chart.options["trees"]] == ["host", "device"]
    whole = results.answers["kernels"].frame.get_column("total_ns").sum()
    assert chart.frames["device"].get_column("self_ns").sum() == whole
    assert chart.table is not None
    assert chart.table.frame.filter(tree="device").get_column("self_ns").sum() == whole


def test_a_tree_that_is_not_there_is_missing() -> None:
    section = flame(demo_results())
    chart, *missing = section.parts
    assert isinstance(chart, Chart)
    assert list(chart.frames) == ["host"]
    assert len(missing) == 2
    assert all(isinstance(part, Missing) for part in missing)


def test_without_any_event_all_are_missing() -> None:
    section = flame(with_frames(flame_frames(Scene(devices=()).linked())))
    assert [type(part) for part in section.parts] == [Missing] * 3


def test_long_names_are_cut_and_many_frames_merged() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    for number in range(FRAMES_ON_PAGE + 5):
        host.run(f"{number}" + "x" * 500, 1)
    chart = flame(with_frames(flame_frames(scene.linked()))).parts[0]
    assert isinstance(chart, Chart)
    frames = chart.frames["host"]
    assert frames.height == FRAMES_ON_PAGE + 1
    assert frames.get_column("self_ns").sum() == FRAMES_ON_PAGE + 5
    assert frames.get_column("name").str.len_chars().max() == 401
