"""The section of flame graphs: a tree for all that the traces hold, and what is missing for the others."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tests.planted import Scene
from tests.unit.reports.runs import demo_results, planted_results
from tracebraid.analysis.flames.flame_frames import flame_frames
from tracebraid.api.reporting.flame_views import FRAMES_ON_PAGE, frames_on_page
from tracebraid.model.report.parts import Chart, Missing
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.flame import flame


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
