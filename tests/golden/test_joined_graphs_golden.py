"""Graphs of real jobs: what their collectives wait for, and that replay gives the measured times."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.golden.graphs import graph_of
from tests.golden.test_analyze_golden import FILES, linked_of
from tests.planted.graphs import check_graph
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import EdgeKind

SMALL_BYTES = 1_000_000
"""Larger files are not built a second time."""


def test_four_of_dlrms_eight_ranks_wait_for_each_other(real_traces: Path) -> None:
    graph = graph_of(real_traces, "pairs/dlrm_v100_8rank")
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 32
    codes = {found.code: found.count for found in graph.findings}
    assert codes[FindingCode.GRAPH_COLLECTIVES_INCOMPLETE] == 8
    assert FindingCode.GRAPH_COLLECTIVES_CONTRADICTED not in codes
    found = tracebraid.graph_coverage(graph).with_columns(pl.col("kind").cast(pl.String))
    assert "transfer_bound" in found.get_column("kind").to_list()


def test_two_sampled_ranks_wait_in_what_they_share(real_traces: Path) -> None:
    graph = graph_of(real_traces, "kineto/sampled_2_of_128")
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 10
    assert graph.activities.get_column("kind").cast(pl.String).to_list().count("collective") == 5


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_real_trace_is_reproduced_whole_and_by_step(real_traces: Path, name: str) -> None:
    graph = graph_of(real_traces, name)
    check_graph(graph)
    tracebraid.graph_coverage(graph)
    step = graph.steps.get_column("step").drop_nulls()
    if len(step) and (real_traces / FILES[name]).stat().st_size < SMALL_BYTES:
        some = tracebraid.dependency_graph(linked_of(real_traces, name), steps=step[0])
        check_graph(some)
        assert some.steps.get_column("step").unique().to_list() == [step[0]]
