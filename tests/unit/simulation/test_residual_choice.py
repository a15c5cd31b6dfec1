"""Graphs with residuals as other steps have them, or without any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tracebraid
from tests.planted import LATENCY_NS, Cause, PlannedJob, Scene
from tests.planted.scenes import clean
from tracebraid.api.graphing import dependency_graph
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay
from tracebraid.simulation.residual_choice import Residuals, with_residuals
from tracebraid.simulation.residual_model import Evidence, usual_residuals
from tracebraid.simulation.step_times import job_step_times, step_moments

KERNEL_NS, LATE_NS = 200_000, 700_000
MODELS = [Residuals.MODELLED, Residuals.MODELLED_ALONE, Residuals.NONE]


def steps(late: int | None = None, count: int = 5) -> DependencyGraph:
    """Steps with two kernels each, for which the host waits; the second kernel of one step starts late."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, count + 1):
        with host.step(number):
            for dims in ([[2, 3], [3, 4]], [[8, 8], [8, 8]]):
                late_ns = LATE_NS if number == late and dims[0] == [8, 8] else 0
                with host.op("aten::mm", dims=dims):
                    host.launch(stream, "gemm", KERNEL_NS, latency=LATENCY_NS + KERNEL_NS + late_ns)
            host.synchronize(stream)
    return dependency_graph(scene.linked())


def replayed(graph: DependencyGraph) -> list[int]:
    edges = graph.edges
    times = replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)
    return job_step_times(times, step_moments(graph.steps)).time_ns.tolist()


def measured(graph: DependencyGraph) -> list[int]:
    return job_step_times(graph.moments.time_ns, step_moments(graph.steps)).time_ns.tolist()


def test_steps_that_are_the_same_are_reproduced() -> None:
    graph = steps()
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(graph)


def test_a_step_has_no_part_in_what_is_usual_for_it() -> None:
    graph, usual = steps(late=3), steps()
    assert replayed(graph) == measured(graph) != measured(usual)
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(usual)


def test_a_step_alone_knows_its_own_residuals_only() -> None:
    graph = steps(late=3)
    with_own = replayed(with_residuals(graph, Residuals.MODELLED_ALONE))
    others = [with_own[step] for step in (0, 1, 3, 4)]
    assert others == [measured(steps())[step] for step in (0, 1, 3, 4)]
    # The mean of two launches that are alike, of which the second alone is on the path.
    assert with_own[2] > others[2]


def test_without_residuals_nothing_is_later_than_what_it_waits_for() -> None:
    graph = with_residuals(steps(late=3), Residuals.NONE)
    assert graph.moments.residual_ns.max() == 0
    assert replayed(graph)[2] == replayed(graph)[3]


@pytest.mark.parametrize("residuals", MODELS)
def test_no_measured_start_is_used(residuals: Residuals) -> None:
    graph = dependency_graph(clean(steps=3).linked())
    blind = replace(graph, moments=replace(graph.moments, time_ns=np.zeros_like(graph.moments.time_ns)))
    assert replayed(with_residuals(blind, residuals)) == replayed(with_residuals(graph, residuals))


@pytest.mark.parametrize("residuals", MODELS)
def test_what_waits_for_nothing_begins_with_its_rank(residuals: Residuals) -> None:
    graph = with_residuals(dependency_graph(clean(steps=2).linked()), residuals)
    has_edges = np.diff(graph.edges.first) > 0
    assert np.flatnonzero(~has_edges).tolist() == [0]
    assert (graph.edges.before < graph.after).all()
    assert len(graph.edges.before) == len(graph.edges.work_ns) == graph.edges.first[-1]


@pytest.mark.parametrize("late_on_host", [True, False])
def test_ranks_begin_as_they_did(tmp_path: Path, late_on_host: bool) -> None:
    """A rank's collective comes late after work of its host, or of a stream whose wait was not recorded."""
    job = PlannedJob(2)
    for number in (1, 2, 3):
        with job.step(number):
            if late_on_host:
                job.delay(1, Cause.OP, 100_000)
            else:
                job.compute(100_000, ranks=[1])
            job.collective("allreduce", transfer=50_000)
    graph = dependency_graph(tracebraid.open(job.write(tmp_path)))
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(graph)


def test_where_there_is_one_step_its_own_residuals_are_all_there_is() -> None:
    graph = steps(count=1)
    found = usual_residuals(graph)
    assert set(found.evidence.tolist()) <= {Evidence.OWN, Evidence.NONE}
    assert found.residual_ns.sum() > 0 or graph.moments.residual_ns.sum() == 0


def test_measured_residuals_leave_the_graph_as_it_is() -> None:
    graph = steps(late=2)
    assert with_residuals(graph, Residuals.MEASURED) is graph


def test_an_empty_graph() -> None:
    graph = dependency_graph(Scene().linked())
    for residuals in Residuals:
        assert len(with_residuals(graph, residuals).moments) == 0


def test_a_graph_of_a_step_begins_with_what_was_there() -> None:
    """A thread that began long before the step, and one that begins in it, are as late as they were."""
    scene = Scene()
    host, worker = scene.thread(), scene.thread("worker", start=50_000)
    worker.run("aten::mul", 400_000)
    for number in (1, 2):
        with host.step(number, 1_000):
            host.run("aten::mm", 300_000)
            if number == 2:
                started = scene.thread("pool", start=host.now - 100_000)
                started.run("aten::add", 150_000)
                host.until(started.now + 10_000)
    graph = dependency_graph(scene.linked(), steps=2)
    assert not graph.is_whole
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(graph)
