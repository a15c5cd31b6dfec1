"""Critical paths of real traces: path and residuals are the step, and explain more of it than HTA's path."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.golden.graphs import graph_of
from tests.golden.test_analyze_golden import FILES
from tests.unit.graph.critical_path.made import check_sums
from tracebraid.api.critical_paths import critical_path_of_graph
from tracebraid.api.graphing import dependency_graph
from tracebraid.graph.critical_path.find_path import PathOptions
from tracebraid.graph.critical_path.slack import edge_slack
from tracebraid.graph.critical_path.step_bounds import step_bounds
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.dependency_graph import DependencyGraph

HTA = {
    "a100_ddp_nccl_rank0of2": "a100_ddp_nccl_rank0of2",
    "a100_event_sync": "a100_event_sync",
    "mi250_minitoy_train": "mi250_minitoy_train",
    "sampled_2_of_128:0": "sampled_2_of_128",
    "triton_example": "triton_example",
}
"""The traces of which HTA gives a path, and where it stands."""


@cache
def path_of(folder: Path, name: str) -> CriticalPath:
    return critical_path_of_graph(graph_of(folder, name), PathOptions(replays=3))


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(FILES))
def test_path_and_residuals_are_the_step(real_traces: Path, name: str) -> None:
    found = path_of(real_traces, name)
    check_sums(found)
    assert found.steps.height > 0
    for share in (found.steps["explained"], found.segments["on_path"], found.stability["on_path"]):
        assert share.is_finite().all()
        assert ((share >= 0) & (share <= 1)).all()


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(FILES))
def test_no_slack_is_negative_and_none_is_on_a_path(real_traces: Path, name: str) -> None:
    graph = graph_of(real_traces, name)
    assert edge_slack(graph, step_bounds(graph)).min() >= 0
    found = path_of(real_traces, name)
    own = found.segments.filter(
        pl.col("kind").cast(pl.String).is_in(["host op", "call", "kernel", "python", "copy"])
    )
    slack = found.slack.filter(pl.col("activity").is_in(own["activity"].implode()))["slack_ns"]
    assert slack.drop_nulls().eq(0).all()


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(HTA))
def test_the_path_explains_more_than_htas(real_traces: Path, name: str) -> None:
    steps = path_of(real_traces, name).steps
    expected = real_traces / "expected/hta" / HTA[name] / "critical_path.ProfilerStep.0.json"
    weight_us = sum(json.loads(expected.read_text())["weight_by_type"].values())
    shares = steps["path_ns"] / steps["span_ns"]
    assert shares.max() >= 1000 * weight_us / steps.item(0, "span_ns")


@pytest.fixture(scope="module")
def demo_graph(demo: Path) -> DependencyGraph:
    return dependency_graph(tracebraid.open(demo))


@pytest.mark.parametrize("rank", [None, 0, 1])
def test_the_demo_has_a_path_over_all_ranks_and_within_each(
    demo_graph: DependencyGraph, rank: int | None
) -> None:
    found = tracebraid.critical_path(demo_graph, rank=rank, replays=5)
    check_sums(found)
    assert found.steps.height == 3
    if rank is not None:
        assert set(found.segments["rank"].drop_nulls()) == {rank}
