"""Streams in the graph: programmatic launches, branches of graphs, queues that are full."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings

from tests.planted import LATENCY_NS, Planted, Scene
from tests.planted.calls import CALL_NS
from tests.planted.random_scenes import scenes
from tracebraid.analysis.launches.queues.full_queue import MAX_QUEUE_LENGTH
from tracebraid.api.graphing import dependency_graph
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay


def edges_of(graph: DependencyGraph, *kinds: EdgeKind) -> list[tuple[int | None, int | None, str, int]]:
    """(event before, event that waits, kind, work) of the edges of some kinds, sorted."""
    event = graph.activities.get_column("event_id").to_list()
    activity, edges = graph.moments.activity, graph.edges
    rows = np.flatnonzero(np.isin(edges.kind, kinds)).tolist()
    found = [
        (
            event[activity[edges.before[row]]],
            event[activity[graph.after[row]]],
            EdgeKind(edges.kind[row]).name,
            int(edges.work_ns[row]),
        )
        for row in rows
    ]
    return sorted(found, key=str)


def time_of(graph: DependencyGraph, times_ns: np.ndarray, work: Planted, point: Point) -> int:
    row = graph.activities.get_column("event_id").to_list().index(work.event_id)
    return int(times_ns[graph.moment_of[row, point]])


def replayed(graph: DependencyGraph, work_ns: np.ndarray) -> np.ndarray:
    edges = graph.edges
    times: np.ndarray = replay(edges.first, edges.before, work_ns, graph.moments.residual_ns)
    return times


def faster(graph: DependencyGraph, work: Planted, factor: float) -> np.ndarray:
    """The work of edges when that of one device event is scaled."""
    row = graph.activities.get_column("event_id").to_list().index(work.event_id)
    own = np.isin(graph.edges.kind, [EdgeKind.DEVICE, EdgeKind.STREAM_OVERLAP, EdgeKind.STREAM_END])
    scaled = own & (graph.edges.activity == row)
    return np.where(scaled, (graph.edges.work_ns * factor).astype(np.int64), graph.edges.work_ns)


def programmatic() -> tuple[DependencyGraph, Planted, Planted]:
    """Two kernels, of which the second starts 10 µs before the end of the first and ends 20 µs after it."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    first = host.launch(stream, "first", 100_000)
    second = host.launch(stream, "second", 30_000, at=first.end - 10_000)
    assert second.call is not None
    second.call.ts = first.ts - 5_000
    return dependency_graph(scene.linked()), first, second


def test_a_programmatic_launch_waits_for_the_start_and_the_end_of_the_kernel_before_it() -> None:
    graph, first, second = programmatic()
    assert edges_of(graph, EdgeKind.STREAM_OVERLAP, EdgeKind.STREAM_END, EdgeKind.STREAM_ORDER) == [
        (first.event_id, second.event_id, "STREAM_END", 20_000),
        (first.event_id, second.event_id, "STREAM_OVERLAP", 90_000),
    ]
    assert edges_of(graph, EdgeKind.DEVICE) == [
        (first.event_id, first.event_id, "DEVICE", 100_000),
        (second.event_id, second.event_id, "DEVICE", 20_000),
    ]


def test_a_faster_kernel_brings_what_overlaps_it_forward() -> None:
    graph, first, second = programmatic()
    times = replayed(graph, faster(graph, first, 0.5))
    gain = time_of(graph, replayed(graph, graph.edges.work_ns), second, Point.END)
    assert gain - time_of(graph, times, second, Point.END) == 50_000


def test_the_lag_of_a_launch_that_came_late_is_not_that_of_the_kernel_before_it() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    first = host.launch(stream, "first", 100_000)
    host.spend(40_000)
    second = host.launch(stream, "second", 90_000, at=host.now + CALL_NS + LATENCY_NS)
    found = edges_of(dependency_graph(scene.linked()), EdgeKind.STREAM_OVERLAP)
    assert found == [(first.event_id, second.event_id, "STREAM_OVERLAP", 0)]


def test_branches_of_a_graph_do_not_wait_for_each_other() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    call = host.call("cudaGraphLaunch")
    begin = call.end + LATENCY_NS
    left = stream.run("left", 50_000, call=call, at=begin)
    right = stream.run("right", 40_000, call=call, at=begin + 1_000)
    last = stream.run("last", 10_000, call=call, at=begin + 51_000)
    graph = dependency_graph(scene.linked())
    assert edges_of(graph, EdgeKind.STREAM_OVERLAP, EdgeKind.STREAM_END) == []
    assert edges_of(graph, EdgeKind.STREAM_ORDER) == [(left.event_id, last.event_id, "STREAM_ORDER", 1_000)]
    launched = [after for _, after, _, _ in edges_of(graph, EdgeKind.LAUNCH)]
    assert launched == [left.event_id, right.event_id]


def test_kernels_of_a_graph_follow_each_other_and_only_the_first_waits_for_the_launch() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    kernels = host.replay(stream, [("a", 10_000), ("b", 20_000), ("c", 30_000)])
    graph = dependency_graph(scene.linked())
    assert [after for _, after, _, _ in edges_of(graph, EdgeKind.LAUNCH)] == [kernels[0].event_id]
    assert len(edges_of(graph, EdgeKind.STREAM_ORDER)) == 2


def test_a_call_that_blocks_on_a_full_queue_waits_for_the_start_of_a_kernel() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    works = [host.launch(stream, "gemm", 10_000_000, call_ns=2_000)]
    works += [host.launch(stream, "gemm", 1_000, call_ns=2_000) for _ in range(MAX_QUEUE_LENGTH)]
    blocked = host.launch(stream, "gemm", 1_000, call_ns=works[0].end + 1_500 - host.now)
    graph = dependency_graph(scene.linked())
    assert blocked.call is not None
    made_room = next(work for work in works if work.ts <= blocked.call.end < work.end)
    found = edges_of(graph, EdgeKind.QUEUE)
    assert [(before, after) for before, after, _, _ in found] == [(made_room.event_id, blocked.call.event_id)]


def test_slow_calls_without_a_full_queue_wait_for_no_kernel() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for _ in range(MAX_QUEUE_LENGTH + 10):
        host.launch(stream, "gemm", 1_000)
    host.launch(stream, "gemm", 1_000, call_ns=1_000_000)
    assert edges_of(dependency_graph(scene.linked()), EdgeKind.QUEUE) == []


@settings(max_examples=12, deadline=None)
@given(scenes())
def test_every_edge_goes_forward_by_its_work_and_the_replay_gives_the_measured_times(scene: Scene) -> None:
    linked = scene.linked()
    part = rank_graph(linked)
    edges = part.edges
    assert (edges.work_ns >= 0).all()
    assert (part.times_ns[edges.before] + edges.work_ns <= part.times_ns[edges.after]).all()
    graph = dependency_graph(linked)
    times, residual_ns = graph.moments.time_ns, graph.moments.residual_ns
    assert (residual_ns >= 0).all()
    if len(times):
        assert (replayed(graph, graph.edges.work_ns) == times - times.min()).all()
    counted = graph.latencies.get_column("edges").sum()
    assert graph.latencies.select(pl.col("samples") <= pl.col("edges")).to_series().all()
    assert counted <= len(graph.edges)


def waited_for(recorded: bool = False, late: int = 0, told: bool = True) -> bool:
    """Whether the second kernel waits for the first."""
    scene = Scene()
    host = scene.thread()
    first = host.launch(scene.stream(7), "first", 500_000)
    event = host.record(scene.stream(7))
    if told:
        host.wait_event(scene.stream(8), event, recorded)
    scene.stream(8).free = first.end + 2_000 + late
    second = host.launch(scene.stream(8), "second", 1_000)
    found = edges_of(dependency_graph(scene.linked()), EdgeKind.EVENT_WAIT)
    pairs = [(before, after) for before, after, _, _ in found]
    assert pairs in ([], [(first.event_id, second.event_id)])
    return bool(pairs)


def test_a_wait_that_is_not_recorded_is_proven_by_the_call_and_by_the_start() -> None:
    assert waited_for(recorded=True)
    assert waited_for(recorded=True, late=1_000_000)
    assert waited_for(recorded=False)


def test_without_a_call_or_long_after_the_other_work_nothing_is_proven() -> None:
    assert not waited_for(told=False)
    assert not waited_for(late=1_000_000)


def test_a_wait_that_runs_on_the_device_has_no_work_of_its_own() -> None:
    """As MTIA writes it: an event `event_wait` on the stream that waits, with the stream that it waits for."""
    scene = Scene()
    host = scene.thread()
    first = host.launch(scene.stream(7), "pe_exe", 500_000)
    call = host.call("enqueueCommand waitOnEvent")
    end = first.end + 1_600
    wait = scene.stream(8).run(
        "event_wait", end - call.end, call=call, at=call.end, args={"wait_on_stream": 7}
    )
    graph = dependency_graph(scene.linked())
    assert [row[:2] for row in edges_of(graph, EdgeKind.EVENT_WAIT)] == [(first.event_id, wait.event_id)]
    assert (wait.event_id, wait.event_id, "DEVICE", 0) in edges_of(graph, EdgeKind.DEVICE)
    times = replayed(graph, faster(graph, first, 0.5))
    before = replayed(graph, graph.edges.work_ns)
    gain = time_of(graph, before, wait, Point.END) - time_of(graph, times, wait, Point.END)
    assert gain == 250_000
