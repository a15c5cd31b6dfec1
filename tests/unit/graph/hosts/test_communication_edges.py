"""Communication on the host, of planted jobs whose waits are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.planted import Cause, PlannedJob, Scene
from tests.unit.linking.made import linked_of
from tracebraid import open as open_traces
from tracebraid.api.graphing import dependency_graph
from tracebraid.graph.hosts.backend_ranges import asking_ops, backend_ranges
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay

TRANSFER_NS, LATE_NS = 200_000, 900_000


@pytest.fixture(scope="module")
def job() -> PlannedJob:
    """Two ranks on CPUs; in each step the second is late for the first of two collectives."""
    planned = PlannedJob(2, devices=[])
    for number in range(1, 4):
        with planned.step(number):
            planned.compute(100_000)
            planned.delay(1, Cause.OP, LATE_NS)
            planned.collective("allreduce", transfer=TRANSFER_NS)
            planned.compute(50_000)
            planned.collective("allreduce", transfer=TRANSFER_NS)
    return planned


@pytest.fixture(scope="module")
def graph(job: PlannedJob, tmp_path_factory: pytest.TempPathFactory) -> DependencyGraph:
    return dependency_graph(open_traces(job.write(tmp_path_factory.mktemp("job"))))


def test_every_collective_of_the_host_is_there(job: PlannedJob, graph: DependencyGraph) -> None:
    kinds = graph.activities.select(as_text("kind")).to_series().value_counts()
    counts = dict(kinds.iter_rows())
    assert (counts["communication"], counts["collective"]) == (12, len(job.collectives))
    transfers = graph.edges.work_ns[graph.edges.kind == EdgeKind.TRANSFER]
    assert np.abs(transfers - TRANSFER_NS).max() <= 1_000


def test_threads_wait_for_each_range_that_they_asked_for(graph: DependencyGraph) -> None:
    edges, moments, after = graph.edges, graph.moments, graph.after
    waits = np.flatnonzero(edges.kind == EdgeKind.COMMUNICATION_WAIT)
    assert len(waits) == 12
    assert (moments.time_ns[after[waits]] == moments.time_ns[edges.before[waits]]).all()
    chain = (edges.kind == EdgeKind.HOST) & np.isin(after, after[waits])
    assert edges.work_ns[chain].sum() == 0


def test_a_rank_that_is_no_longer_late_saves_that_time_on_both(graph: DependencyGraph) -> None:
    names = graph.activities.select(as_text("name")).to_series()
    late = names.eq_missing("aten::nonzero").to_numpy()[graph.edges.activity]
    work = np.where(late & (graph.edges.kind == EdgeKind.HOST), 0, graph.edges.work_ns)
    edges, residual = graph.edges, graph.moments.residual_ns
    before = replay(edges.first, edges.before, edges.work_ns, residual)
    after = replay(edges.first, edges.before, work, residual)
    ends = graph.steps.filter(pl.col("step") == "ProfilerStep#3").get_column("host_end_moment").to_numpy()
    assert np.abs((before - after)[ends] - 3 * LATE_NS).max() <= 3_000


def test_an_op_computes_while_communication_runs_and_waits_for_none_of_it() -> None:
    scene = Scene(devices=[])
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    host.run("c10d::allreduce_", 5_000)
    backend.until(8_000)
    with backend.annotation("gloo:all_reduce", 100_000):
        pass
    host.run("aten::mm", 120_000)
    edges = rank_graph(scene.linked()).edges
    assert not (edges.kind == EdgeKind.COMMUNICATION_WAIT).any()
    assert edges.work_ns[edges.kind == EdgeKind.HOST].sum() == 225_000


def test_a_range_starts_after_the_op_that_asked_for_it() -> None:
    scene = Scene(devices=[])
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    asked = host.run("c10d::allreduce_", 5_000)
    backend.until(8_000)
    with backend.annotation("gloo:all_reduce", 100_000) as ranged:
        pass
    graph = rank_graph(scene.linked())
    threads = graph.edges[graph.edges.kind == EdgeKind.THREAD]
    events = graph.activities.get_column("event_id").to_list()
    assert [events[number // 2] for number in threads.before] == [asked.event_id]
    assert threads.before[0] % 2 == Point.END
    assert graph.times_ns[threads.after].tolist() == [ranged.ts]


def test_ranges_of_ops_before_the_window_have_none() -> None:
    scene = Scene(devices=[])
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    with backend.annotation("gloo:all_reduce", 10_000):
        pass
    asked = host.run("c10d::allreduce_", 50_000)
    backend.until(60_000)
    with backend.annotation("gloo:all_reduce", 10_000):
        pass
    linked = scene.linked()
    assert backend_ranges(linked).height == 2
    assert asking_ops(linked).get_column("event_id").to_list() == [None, asked.event_id]


def test_a_trace_without_events_has_no_edges(tmp_path: Path) -> None:
    graph = rank_graph(linked_of([]))
    assert (len(graph.edges), graph.activities.height) == (0, 0)
