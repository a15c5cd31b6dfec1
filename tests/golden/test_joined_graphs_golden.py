"""Graphs of real jobs: what their collectives wait for, and that replay gives the measured times."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted.graphs import check_graph
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import EdgeKind

SMALL_BYTES = 1_000_000
"""Larger files are left to the benchmarks."""


def test_four_of_dlrms_eight_ranks_wait_for_each_other(real_traces: Path) -> None:
    graph = tracebraid.dependency_graph(tracebraid.open(real_traces / "pairs/dlrm_v100_8rank"))
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 32
    codes = {found.code: found.count for found in graph.findings}
    assert codes[FindingCode.GRAPH_COLLECTIVES_INCOMPLETE] == 8
    assert FindingCode.GRAPH_COLLECTIVES_CONTRADICTED not in codes
    found = tracebraid.graph_coverage(graph).with_columns(pl.col("kind").cast(pl.String))
    assert "transfer_bound" in found.get_column("kind").to_list()


def test_two_sampled_ranks_wait_in_what_they_share(real_traces: Path) -> None:
    graph = tracebraid.dependency_graph(tracebraid.open(real_traces / "kineto/sampled_2_of_128"))
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 10
    assert graph.activities.get_column("kind").cast(pl.String).to_list().count("collective") == 5


def test_small_real_traces_are_reproduced_whole_and_by_step(real_traces: Path) -> None:
    paths = sorted((real_traces / "kineto").glob("*.json.gz"))
    small = [path for path in paths if path.stat().st_size < SMALL_BYTES]
    if not small:
        pytest.skip("no small trace is there")
    for path in small:
        traces = tracebraid.open(path)
        graph = tracebraid.dependency_graph(traces)
        check_graph(graph)
        tracebraid.graph_coverage(graph)
        step = graph.steps.get_column("step").drop_nulls()
        if len(step):
            some = tracebraid.dependency_graph(traces, steps=step[0])
            check_graph(some)
            assert some.steps.get_column("step").unique().to_list() == [step[0]]
