"""Whatever is asked of a dependency graph can be asked of the traces, with the same answer."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

import tracebraid
from tests.planted import Cause, PlannedJob
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job

QUESTIONS: dict[str, Callable[[Job | DependencyGraph], pl.DataFrame]] = {
    "critical_path": lambda asked: tracebraid.critical_path(asked, replays=2).segments,
    "graph_coverage": tracebraid.graph_coverage,
    "straggler_metrics": tracebraid.straggler_metrics,
    "sweep": tracebraid.sweep,
    "what_if": lambda asked: tracebraid.what_if(asked, "scale 0.5 kind=kernel").steps,
}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    planned = PlannedJob(2)
    for number in (1, 2):
        with planned.step(number):
            planned.compute(100_000)
            planned.delay(number % 2, Cause.KERNEL, 400_000)
            planned.collective("allreduce")
    return tracebraid.open(planned.write(tmp_path_factory.mktemp("job")))


@pytest.mark.parametrize("question", QUESTIONS)
def test_traces_and_their_graph_give_the_same_answer(job: Job, question: str) -> None:
    found = QUESTIONS[question](tracebraid.dependency_graph(job))
    assert not found.is_empty()
    assert found.equals(QUESTIONS[question](job))
