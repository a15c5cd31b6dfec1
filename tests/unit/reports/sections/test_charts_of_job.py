"""Charts on the job hold what was planted, and the figures of the analyses."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.unit.reports.runs import planted_results
from tests.unit.reports.sections.chart_runs import LATE, RANKS, STEPS, charts_of, straggling
from tracebraid.model.report.parts import Chart, ChartKind, Missing, Note
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.collectives import collectives
from tracebraid.reports.sections.heat import heat
from tracebraid.reports.sections.job import job
from tracebraid.reports.sections.stragglers import stragglers

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
