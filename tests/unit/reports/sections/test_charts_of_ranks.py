"""Charts on what a rank does hold the figures of the analyses: memory, efficiency, idle time, what-if, advice."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.planted import Scene
from tests.unit.reports.runs import demo_results
from tests.unit.reports.sections.chart_runs import charts_of, straggling
from tracebraid.api.reporting.memory_view import MEMORY_BY_CATEGORY, memory_view
from tracebraid.api.reporting.view_options import ViewOptions
from tracebraid.model.answers import SWEEP
from tracebraid.model.report.parts import ChartKind, DataTable, Missing
from tracebraid.model.report.sampling import sampled
from tracebraid.reports.sections.changes import changes
from tracebraid.reports.sections.idle import idle
from tracebraid.reports.sections.memory import memory
from tracebraid.reports.sections.roofline import roofline
from tracebraid.reports.sections.sweep import sweep


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
    view = memory_view(scene.linked(), ViewOptions((), "ProfilerStep", 1))[MEMORY_BY_CATEGORY]
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
    parts = [name for name in ("replayed", "bound") if name in bars.columns]
    savings = items.get_column("saving_per_step_ns").head(bars.height).to_list()
    assert bars.select(pl.sum_horizontal(parts)).to_series().to_list() == pytest.approx(savings)
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
