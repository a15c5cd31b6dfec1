"""What starts threads, and what they wait for."""

from __future__ import annotations

import numpy as np

from tests.planted import Planted, Scene, Thread
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import RankGraph


def host_work(graph: RankGraph, *, lane_of: Planted) -> int:
    """The work of the thread that an event is on."""
    activities = graph.activities
    event = activities.get_column("event_id").to_list().index(lane_of.event_id)
    lane = activities.get_column("lane")[event]
    own = np.flatnonzero((activities.get_column("lane") == lane).to_numpy())
    chain = (graph.edges.kind == EdgeKind.HOST) & np.isin(graph.edges.after // 2, own)
    return int(graph.edges.work_ns[chain].sum())


def thread_edges_of(graph: RankGraph) -> set[tuple[int, int]]:
    """The times of both moments of each hand-over."""
    edges = graph.edges[graph.edges.kind == EdgeKind.THREAD]
    before, after = graph.times_ns[edges.before].tolist(), graph.times_ns[edges.after].tolist()
    return set(zip(before, after, strict=True))


def without_cause(graph: RankGraph) -> int:
    """How many moments of threads wait for nothing."""
    starts = np.isin(graph.activities.get_column("kind").cast(str).to_numpy(), ["thread"])
    return int((~np.isin(2 * np.flatnonzero(starts), graph.edges.after)).sum())


def backward_pass(host: Thread, autograd: Thread, forward: Planted, ns: int) -> None:
    """The host is silent from 20 µs before the backward op to 30 µs behind it."""
    autograd.until(host.now + 20_000)
    with autograd.backward("MmBackward0", forward, host, ns):
        pass
    host.until(autograd.now + 30_000)


def test_a_backward_thread_starts_when_the_forward_thread_falls_silent() -> None:
    scene = Scene(devices=[])
    host, autograd = scene.thread(), scene.thread("autograd")
    starts = []
    for _ in range(2):
        forward = host.run("aten::mm", 50_000, sequence=scene.count("sequence"))
        starts.append(host.now)
        backward_pass(host, autograd, forward, 400_000)
        last = host.run("aten::add", 10_000)
    graph = rank_graph(scene.linked())
    wanted = {(start, start + 20_000) for start in starts} | {
        (start + 420_000, start + 450_000) for start in starts
    }
    assert wanted <= thread_edges_of(graph)
    assert without_cause(graph) == 1
    assert host_work(graph, lane_of=last) == 2 * 60_000
    assert host_work(graph, lane_of=scene.of("MmBackward0")[0]) == 2 * 400_000


def test_a_thread_begins_inside_the_call_that_starts_it_and_is_joined() -> None:
    scene = Scene(devices=[])
    host, other = scene.thread(), scene.thread("worker")
    with host.frame("threading.py(975): start", 10_000):
        host.spend(40_000)
    other.until(20_000)
    worked = other.run("aten::mm", 300_000)
    host.run("aten::add", 5_000)
    with host.frame("threading.py(1110): join") as join:
        host.until(other.now + 15_000)
    graph = rank_graph(scene.linked())
    assert {(0, worked.ts), (worked.end, join.end)} <= thread_edges_of(graph)
    assert without_cause(graph) == 1
    assert host_work(graph, lane_of=join) == 55_000


def test_a_thread_that_nothing_is_known_to_have_started_waits_for_nothing() -> None:
    scene = Scene(devices=[])
    host, other = scene.thread(), scene.thread("worker")
    other.until(20_000)
    for _ in range(20):
        host.run("aten::add", 30_000)
        other.run("aten::mm", 30_000)
    graph = rank_graph(scene.linked())
    assert thread_edges_of(graph) == set()
    assert without_cause(graph) == 2


def test_python_functions_say_when_a_thread_resumed() -> None:
    scene = Scene(devices=[])
    host, autograd = scene.thread(), scene.thread("autograd")
    with host.frame("train.py(1): step"):
        forward = host.run("aten::mm", 50_000, sequence=scene.count("sequence"))
        with host.frame("autograd/__init__.py(1): backward", 5_000) as call:
            backward_pass(host, autograd, forward, 400_000)
        host.spend(60_000)
        host.run("aten::add", 10_000)
    graph = rank_graph(scene.linked())
    assert {(call.ts, call.ts + 25_000), (call.end - 30_000, call.end)} <= thread_edges_of(graph)
    assert host_work(graph, lane_of=call) == 120_000
