"""Arguments that newcomers give to the questions of the dependency graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

import tracebraid
from tracebraid.chakra import Dimension, Topology
from tracebraid.errors import ArgumentError


@pytest.fixture(scope="module")
def job() -> tracebraid.Job:
    return tracebraid.open(tracebraid.demo_path())


def test_a_path_is_no_job() -> None:
    with pytest.raises(ArgumentError):
        tracebraid.dependency_graph(cast("Any", "traces"))


def test_a_list_is_no_change(job: tracebraid.Job) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.what_if(job, cast("Any", ["scale 0.5"]))


@pytest.mark.slow
def test_a_sweep_is_grouped_by_a_name_alone(job: tracebraid.Job) -> None:
    graph = tracebraid.dependency_graph(job)
    assert tracebraid.sweep(graph, by="op", groups=5).equals(tracebraid.sweep(graph, by=["op"], groups=5))


def test_the_critical_path_is_that_of_the_graph(job: tracebraid.Job) -> None:
    of_job = tracebraid.critical_path(job, replays=0)
    of_graph = tracebraid.critical_path(tracebraid.dependency_graph(job), replays=0)
    assert of_graph.segments.equals(of_job.segments)
    assert of_graph.steps.select(pl.col("span_ns").sum()).item() > 0


@pytest.mark.parametrize(
    ("options", "choices"),
    [
        (lambda: tracebraid.chakra.ChakraOptions(detail="whole"), "full, device, merged"),
        (lambda: tracebraid.chakra.ChakraOptions(missing="ignore"), "refuse, shrink, replicate"),
        (lambda: Dimension(cast("Any", "star"), 50.0, 500.0), "ring, switch, fully-connected"),
    ],
    ids=["detail", "missing", "topology"],
)
def test_a_text_that_is_no_code_names_the_codes(options: Callable[[], object], choices: str) -> None:
    with pytest.raises(ArgumentError, match=f"known: {choices}"):
        options()


@pytest.mark.full
@pytest.mark.slow
def test_codes_may_be_texts(job: tracebraid.Job, tmp_path: Path) -> None:
    chosen = tracebraid.chakra.ChakraOptions("full", missing="shrink")
    written = tracebraid.export(job, tmp_path / "job", "chakra", tracebraid.ExportOptions(chakra=chosen))
    assert written.rows
    assert Dimension(cast("Any", "switch"), 50.0, 500.0).topology is Topology.SWITCH
