"""Graphs of some steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.planted import PlannedJob, Scene
from tests.planted.graphs import check_graph
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.graph.codes import Residual
from tracebraid.model.job import Job


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    planned = PlannedJob(2)
    for number in (1, 2, 3, 4):
        with planned.step(number):
            planned.compute(100_000)
            planned.compute(200_000 * number, [1])
            planned.collective()
    opened = tracebraid.open(planned.write(tmp_path_factory.mktemp("job")))
    assert isinstance(opened, Job)
    return opened


@pytest.mark.parametrize("steps", [2, "2", "ProfilerStep#2", [2], range(2, 3)])
def test_a_step_is_named_by_number_name_or_range(job: Job, steps: int | str | list[int]) -> None:
    graph = tracebraid.dependency_graph(job, steps=steps)
    check_graph(graph)
    assert graph.steps.get_column("step").to_list() == ["ProfilerStep#2"] * 2
    assert not graph.is_whole


def test_moments_in_the_steps_are_those_of_the_whole_graph(job: Job) -> None:
    whole = tracebraid.dependency_graph(job)
    some = tracebraid.dependency_graph(job, steps=[2, 4])
    check_graph(some)
    assert some.steps.get_column("step").to_list() == ["ProfilerStep#2"] * 2 + ["ProfilerStep#4"] * 2
    for step, rank, *moments in some.steps.iter_rows():
        same = whole.steps.row(by_predicate=(pl.col("step") == step) & (pl.col("rank") == rank))[2:]
        for ours, theirs in zip(moments, same, strict=True):
            assert some.moments.time_ns[ours] == whole.moments.time_ns[theirs]
    assert len(some.moments) < 0.8 * len(whole.moments)
    collectives = some.activities.filter(pl.col("rank").is_null())
    assert collectives.get_column("step").cast(pl.String).to_list() == ["ProfilerStep#2", "ProfilerStep#4"]


def test_what_was_waited_for_before_the_window_happens_when_it_did(job: Job) -> None:
    graph = tracebraid.dependency_graph(job, steps=3)
    without = np.flatnonzero((np.diff(graph.edges.first) == 0) & (graph.moments.residual_ns > 0))
    assert len(without)
    assert set(graph.moments.residual[without]) == {Residual.BEFORE}


def test_a_step_that_is_not_there_is_an_error_that_names_those_that_are(job: Job) -> None:
    with pytest.raises(ArgumentError, match=r"9.*ProfilerStep#1"):
        tracebraid.dependency_graph(job, steps=[2, 9])
    with pytest.raises(ArgumentError):
        tracebraid.dependency_graph(job, steps=[])
    with pytest.raises(ArgumentError):
        tracebraid.dependency_graph(job, steps=1, annotation="nothing")


def test_a_rank_is_read_once_for_the_same_graph(job: Job) -> None:
    loads: list[int] = []

    def load(files: object, progress: object) -> object:
        loads.append(1)
        return job.load(files, progress)  # type: ignore[arg-type]

    counted = Job(job.path, job.files, load)  # type: ignore[arg-type]
    first = tracebraid.dependency_graph(counted, steps=2)
    assert tracebraid.dependency_graph(counted, steps=2) is first
    assert len(loads) == 2
    tracebraid.stragglers(counted)
    assert len(loads) <= 4


def test_a_linked_trace_is_a_job_of_one_rank(demo: Path) -> None:
    opened = tracebraid.open(demo)
    assert isinstance(opened, Job)
    graph = tracebraid.dependency_graph(opened[0], steps=4)
    check_graph(graph)
    assert graph.steps.get_column("rank").to_list() == [0]
    assert tracebraid.dependency_graph(opened[0], steps=4) is graph


def test_two_traces_that_claim_a_rank_are_an_error(tmp_path: Path) -> None:
    text = Scene(rank=0, world_size=2).text()
    for name in ("kineto_trace_0.json", "kineto_trace_1.json"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError):
        tracebraid.dependency_graph(tracebraid.open(tmp_path))
