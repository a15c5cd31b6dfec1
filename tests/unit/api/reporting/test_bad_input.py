"""Runs that a report must not fail on: nothing in the traces, no device, no steps, one event, many ranks, odd names."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.builders import kernel, kineto_text, op, write
from tests.planted import Scene, write_ranks
from tests.unit.reports.runs import planted_scene
from tracebraid.api.reporting import ReportOptions, run_results
from tracebraid.reports.page.page import page
from tracebraid.reports.renderers import report_data, report_parts
from tracebraid.reports.sections.run_report import run_report

HOSTILE = "</script><script>alert(1)</script>\"'&\u202e\x07" + "k" * 10_000 + "\U0001f525"
EVENTS = {
    "no event": [],
    "one op": [op("aten::mm", 0, 10)],
    "one op of no length": [op("aten::mm", 0, 0)],
    "one kernel": [kernel("gemm", 0, 10, 7)],
    "no steps": [op("aten::mm", 0, 10), kernel("gemm", 5, 10, 7)],
    "hostile names": [op(HOSTILE, 0, 10), kernel(HOSTILE, 5, 10, 7)],
}


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS.keys())
def test_a_page_text_and_json_are_made(tmp_path: Path, events: list[dict[str, object]]) -> None:
    write(tmp_path / "kineto_trace_0.json", kineto_text(events))
    results = run_results(tracebraid.open(tmp_path))
    report = run_report(results, HOSTILE)
    assert "<script>alert(1)" not in page(report)
    assert report_parts(report, 80)
    assert report_data(report)["sections"]


@pytest.mark.full
@pytest.mark.slow
def test_many_ranks_are_asked_in_detail_of_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detailed, ranks = 4, 8
    monkeypatch.setattr("tracebraid.api.reporting.DETAILED_RANKS", detailed)
    scenes = []
    for rank in range(ranks):
        scene = Scene(rank=rank)
        host = scene.thread()
        with host.step(1):
            host.spend(10_000)
        scenes.append(scene)
    write_ranks(tmp_path, scenes)
    results = run_results(tracebraid.open(tmp_path), ReportOptions(with_graph=False))
    assert len(results.ranks) == ranks
    assert len(results.detailed) == detailed
    assert {0, ranks - 1} <= set(results.detailed)
    assert set(results.answers["ops"].lacks) == set(results.detailed)
    assert set(results.answers["steps"].lacks) == set(results.ranks)
    assert results.answers["steps"].frame.get_column("rank").to_list() == list(range(ranks))


@pytest.mark.slow
def test_a_graph_is_left_out_where_there_are_too_many_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracebraid.api.reporting.GRAPH_EVENTS", 3)
    write_ranks(tmp_path, [planted_scene(0, 2)])
    results = run_results(tracebraid.open(tmp_path))
    assert results.path_of_steps is None
    assert results.without_graph
