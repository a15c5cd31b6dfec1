"""Real ranks as nodes: replayed alone, each starting when what it waits for has ended, they take the measured times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.chakra_nodes import check_nodes, communication_of
from tests.golden.graphs import JOBS
from tests.golden.test_analyze_golden import FILES, linked_of
from tracebraid.exporters.chakra.nodes.rank_nodes import rank_nodes
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.chakra.codes import Detail
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.linked_trace import LinkedTrace


def _checked(linked: LinkedTrace) -> int:
    graph = rank_graph(linked)
    communication = communication_of(graph)
    for detail in (Detail.FULL, Detail.DEVICE):
        rank = rank_nodes(graph, communication, detail)
        check_nodes(rank, graph)
        found = rank.nodes.filter(pl.col("stream").is_not_null(), pl.col("kind").cast(pl.String) != "delay")
        works = graph.edges.activity[graph.edges.kind == EdgeKind.DEVICE]
        assert found.height == len(np.unique(works))
    return communication.height


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_work_of_a_device_has_its_measured_times(name: str, real_traces: Path) -> None:
    _checked(linked_of(real_traces, name))


@pytest.mark.parametrize("name", sorted(JOBS))
def test_ranks_of_jobs_have_their_measured_times(name: str, real_traces: Path) -> None:
    assert all(tracebraid.open(real_traces / name).each(_checked))


def test_the_demo_has_its_measured_times(demo: Path) -> None:
    assert list(tracebraid.open(demo).each(_checked)) == [9, 9]
