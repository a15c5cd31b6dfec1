"""Streams and latencies in the graph: programmatic launches, branches, full queues, and what is usual."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json
from tests.cases import cases
from tests.planted import LATENCY_NS, RETURN_NS, Planted, Scene, device_scene, host_scene
from tests.planted.calls import CALL_NS
from tests.planted.equal_steps import is_device, linked, steps
from tests.planted.random_scenes import scenes
from tracebraid import dependency_graph
from tracebraid.analysis.launches.queues import MAX_QUEUE_LENGTH
from tracebraid.graph.latencies import MIN_SAMPLES, sole_dependency, usual_latencies
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.graph import DependencyGraph, EdgeKind, EdgeList, LatencySource, Point, Residual
from tracebraid.model.schema.links import LATENCIES
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
    scene, host, stream = device_scene()
    first = host.launch(stream, "first", 100_000)
    second = host.launch(stream, "second", 30_000, at=first.end - 10_000)
    assert second.call is not None
    second.call.ts = first.ts - 5_000
    return dependency_graph(scene.linked()), first, second


def test_a_programmatic_launch_waits_for_the_start_and_the_end_of_the_kernel_before_it() -> None:
    """A faster kernel brings what overlaps it forward."""
    graph, first, second = programmatic()
    assert edges_of(graph, EdgeKind.STREAM_OVERLAP, EdgeKind.STREAM_END, EdgeKind.STREAM_ORDER) == [
        (first.event_id, second.event_id, "STREAM_END", 20_000),
        (first.event_id, second.event_id, "STREAM_OVERLAP", 90_000),
    ]
    assert edges_of(graph, EdgeKind.DEVICE) == [
        (first.event_id, first.event_id, "DEVICE", 100_000),
        (second.event_id, second.event_id, "DEVICE", 20_000),
    ]
    times = replayed(graph, faster(graph, first, 0.5))
    before = time_of(graph, replayed(graph, graph.edges.work_ns), second, Point.END)
    assert before - time_of(graph, times, second, Point.END) == 50_000


def test_the_lag_of_a_launch_that_came_late_is_not_that_of_the_kernel_before_it() -> None:
    scene, host, stream = device_scene()
    first = host.launch(stream, "first", 100_000)
    host.spend(40_000)
    second = host.launch(stream, "second", 90_000, at=host.now + CALL_NS + LATENCY_NS)
    found = edges_of(dependency_graph(scene.linked()), EdgeKind.STREAM_OVERLAP)
    assert found == [(first.event_id, second.event_id, "STREAM_OVERLAP", 0)]


def test_branches_of_a_graph_do_not_wait_for_each_other() -> None:
    scene, host, stream = device_scene()
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


def test_of_kernels_of_a_graph_that_follow_each_other_only_the_first_waits_for_the_launch() -> None:
    scene, host, stream = device_scene()
    kernels = host.replay(stream, [("a", 10_000), ("b", 20_000), ("c", 30_000)])
    graph = dependency_graph(scene.linked())
    assert [after for _, after, _, _ in edges_of(graph, EdgeKind.LAUNCH)] == [kernels[0].event_id]
    assert len(edges_of(graph, EdgeKind.STREAM_ORDER)) == 2


@pytest.mark.slow
def test_a_call_that_blocks_on_a_full_queue_waits_for_the_start_of_a_kernel() -> None:
    scene, host, stream = device_scene()
    works = [host.launch(stream, "gemm", 10_000_000, call_ns=2_000)]
    works += [host.launch(stream, "gemm", 1_000, call_ns=2_000) for _ in range(MAX_QUEUE_LENGTH)]
    blocked = host.launch(stream, "gemm", 1_000, call_ns=works[0].end + 1_500 - host.now)
    graph = dependency_graph(scene.linked())
    assert blocked.call is not None
    made_room = next(work for work in works if work.ts <= blocked.call.end < work.end)
    found = edges_of(graph, EdgeKind.QUEUE)
    assert [(before, after) for before, after, _, _ in found] == [(made_room.event_id, blocked.call.event_id)]


def test_slow_calls_without_a_full_queue_wait_for_no_kernel() -> None:
    scene, host, stream = device_scene()
    for _ in range(MAX_QUEUE_LENGTH + 10):
        host.launch(stream, "gemm", 1_000)
    host.launch(stream, "gemm", 1_000, call_ns=1_000_000)
    assert edges_of(dependency_graph(scene.linked()), EdgeKind.QUEUE) == []


@pytest.mark.full
@pytest.mark.slow
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


@cases(
    "recorded, late, called, waits",
    {
        "recorded": (True, 0, True, True),
        "recorded, though late": (True, 1_000_000, True, True),
        "proven by the call and by the start": (False, 0, True, True),
        "without a call": (False, 0, False, False),
        "long after the other work": (False, 1_000_000, True, False),
    },
)
def test_waiting_for_another_stream_is_recorded_or_proven(
    recorded: bool, late: int, called: bool, waits: bool
) -> None:
    scene, host, stream = device_scene()
    first = host.launch(stream, "first", 500_000)
    event = host.record(stream)
    if called:
        host.wait_event(scene.stream(8), event, recorded)
    scene.stream(8).free = first.end + 2_000 + late
    second = host.launch(scene.stream(8), "second", 1_000)
    found = edges_of(dependency_graph(scene.linked()), EdgeKind.EVENT_WAIT)
    assert [edge[:2] for edge in found] == [(first.event_id, second.event_id)] * waits


@pytest.mark.slow
def test_a_wait_that_runs_on_the_device_has_no_work_of_its_own() -> None:
    """As MTIA writes it: an event `event_wait` on the stream that waits, with the stream that it waits for."""
    scene, host = host_scene()
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


_GAP_NS = 1_200


def launches(late: int = 0, times: int = 8) -> DependencyGraph:
    """Launches on an idle stream, of which the last is late, each waited for."""
    scene, host, stream = device_scene()
    for number in range(times):
        host.launch(stream, "gemm", 20_000, latency=LATENCY_NS + (late if number == times - 1 else 0))
        host.synchronize(stream)
        host.spend(2_000)
    return dependency_graph(scene.linked())


def row(graph: DependencyGraph, kind: str) -> dict[str, object]:
    """The row of latencies of that kind with the most edges."""
    rows = graph.latencies.filter(pl.col("kind").cast(pl.String) == kind).sort("edges")
    return rows.to_dicts()[-1]


def residual_ns(graph: DependencyGraph, residual: Residual) -> int:
    moments = graph.moments
    return int(moments.residual_ns[moments.residual == residual].sum())


def test_latencies_of_launch_and_sync_are_what_was_planted() -> None:
    graph = launches()
    launch, sync = row(graph, "launch"), row(graph, "sync")
    assert graph.latencies.schema == pl.Schema(LATENCIES.polars_schema())
    assert (launch["typical_ns"], launch["samples"]) == (CALL_NS + LATENCY_NS, 8)
    assert launch["key"] == "cudaLaunchKernel > kernel"
    assert (sync["typical_ns"], sync["key"], sync["source"]) == (RETURN_NS, "cudaStreamSynchronize", "group")
    assert graph.moments.residual_ns.sum() == 0


@pytest.mark.slow
def test_what_exceeds_the_usual_is_residual_and_has_a_name() -> None:
    """A launch that is much too late is no latency."""
    graph = launches(late=7_000)
    assert row(graph, "launch")["typical_ns"] == CALL_NS + LATENCY_NS
    assert residual_ns(graph, Residual.LAUNCH) == graph.moments.residual_ns.sum() == 7_000
    assert residual_ns(launches(late=5_000_000), Residual.UNEXPLAINED) == 5_000_000


def test_a_gap_is_learned_where_work_was_queued() -> None:
    scene, host, stream = device_scene()
    for _ in range(9):
        host.launch(stream, "gemm", 50_000)
        stream.free += _GAP_NS
    graph = dependency_graph(scene.linked())
    gap = row(graph, "stream_order")
    assert (gap["typical_ns"], gap["samples"], gap["key"]) == (_GAP_NS, 8, "kernel > kernel")
    assert graph.moments.residual_ns.sum() == 0


def test_the_first_work_of_a_stream_that_starts_long_after_its_launch_waited_for_what_is_not_there() -> None:
    scene, host = host_scene()
    for number in range(6):
        host.launch(scene.stream(7), "gemm", 1_000)
        host.spend(10_000 + number)
    host.launch(scene.stream(8), "late", 1_000, latency=LATENCY_NS + 50_000_000)
    graph = dependency_graph(scene.linked())
    assert residual_ns(graph, Residual.BEFORE) == graph.moments.residual_ns.sum() == 50_000_000


@pytest.mark.parametrize("inside", [True, False])
def test_what_a_long_call_did_before_it_launched_is_work_of_the_launch_and_named_by_the_call(
    inside: bool,
) -> None:
    """The kernel starts 3 us before its call ends, or as long after it as usual."""
    scene, loading_ns = Scene(), 3_000_000
    host, stream = scene.thread(), scene.stream(7)
    for number in range(8):
        work = host.launch(stream, "gemm", 20_000)
        if number == 7:
            assert work.call is not None
            work.call.dur += loading_ns
            work.ts += loading_ns - (LATENCY_NS + 3_000 if inside else 0)
            stream.free = max(work.end, work.call.end)
            host.until(work.call.end)
        host.synchronize(stream)
    graph = dependency_graph(scene.linked())
    assert graph.moments.residual_ns.sum() == 0
    launched = graph.edges.kind == EdgeKind.LAUNCH
    owner = graph.activities[pl.Series(graph.edges.activity[launched])].get_column("name").cast(pl.String)
    latest = int(np.argmax(graph.edges.work_ns[launched]))
    extra = -3_000 if inside else LATENCY_NS
    assert graph.edges.work_ns[launched][latest] == loading_ns + CALL_NS + extra
    assert (owner[latest], owner[0]) == ("cudaLaunchKernel", "gemm")
    assert row(graph, "launch")["typical_ns"] == CALL_NS + LATENCY_NS


def _rows(slacks: list[int], samples: int, key: str = "a") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "code": np.full(len(slacks), int(EdgeKind.LAUNCH), dtype=np.uint8),
            "key": [key] * len(slacks),
            "slack_ns": slacks,
            "is_sample": [number < samples for number in range(len(slacks))],
        }
    )


def test_few_samples_fall_back_to_the_kind_then_to_the_lowest_and_then_to_none() -> None:
    few, many = _rows([90, 80], 2, "few"), _rows([10, 20, 30, 20, 20], 5, "many")
    both = usual_latencies(pl.concat([few, many]))
    assert both.get_column("source").to_list() == [LatencySource.KIND.value, LatencySource.GROUP.value]
    assert both.get_column("typical_ns").to_list() == [20.0, 20.0]
    for samples, lowest, source in ((2, 80.0, LatencySource.LOWEST), (0, 0.0, LatencySource.NONE)):
        alone = usual_latencies(_rows([90, 80, 70], samples))
        assert alone.select("typical_ns", "source").row(0) == (lowest, source.value)


def test_waits_that_are_not_recorded_do_not_pass_as_latency() -> None:
    found = usual_latencies(_rows([10, 11, 12, 13, 9_000, 9_000, 9_000, 9_000, 9_000], 9))
    assert found.get_column("typical_ns").item() < 4 * 13
    assert found.get_column("high_ns").item() == 9_000


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30), st.data())
def test_an_edge_shows_a_latency_alone_if_no_other_was_ready_later(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    after = np.array([pair[0] + 10 for pair in pairs])
    before = np.array([pair[1] for pair in pairs])
    times = np.sort(np.array(data.draw(st.lists(st.integers(0, 50), min_size=16, max_size=16))))
    most = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(pairs), max_size=len(pairs))))
    edges = EdgeList.of(before, after, int(EdgeKind.LAUNCH), after)
    alone = sole_dependency(edges, times, most)
    for edge in range(len(pairs)):
        others = [
            times[before[i]] + most[i] for i in range(len(pairs)) if i != edge and after[i] == after[edge]
        ]
        assert alone[edge] == all(times[before[edge]] >= ready for ready in others)


@pytest.mark.parametrize("samples", [MIN_SAMPLES - 1, MIN_SAMPLES])
def test_a_median_needs_samples(samples: int) -> None:
    source = usual_latencies(_rows([5, 6, 7, 8, 9, 10], samples)).get_column("source").item()
    assert (source == LatencySource.GROUP.value) == (samples >= MIN_SAMPLES)


def as_text(event: Json) -> Json:
    return {**event, "pid": f"GPU {event['pid']}", "tid": f"stream {event['tid']}"}


def without_stream(event: Json) -> Json:
    return {**event, "args": {key: event["args"][key] for key in event["args"] if key != "stream"}}


@pytest.mark.parametrize("changed", [as_text, without_stream])
def test_work_is_on_a_stream_however_the_file_names_it(changed: Callable[[Json], Json]) -> None:
    events = steps(3)
    known = dependency_graph(linked(events))
    renamed = dependency_graph(linked([changed(event) if is_device(event) else event for event in events]))
    assert (
        renamed.activities.get_column("stream").null_count()
        == known.activities.get_column("stream").null_count()
    )
    assert np.array_equal(renamed.edges.kind, known.edges.kind)
    assert np.array_equal(renamed.edges.work_ns, known.edges.work_ns)
