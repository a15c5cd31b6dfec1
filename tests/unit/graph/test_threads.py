"""Threads of the host in the graph: what starts them, what they wait for, and whose their time is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracebraid
from tests.builders import Json, op
from tests.planted import Planted, Scene, Thread
from tests.unit.linking.made import linked_of
from tracebraid import dependency_graph
from tracebraid.analysis.host.host_rows import host_rows
from tracebraid.graph.activities import rank_activities
from tracebraid.graph.hosts.host_edges import FEWEST
from tracebraid.graph.hosts.thread_edges import thread_edges
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.graph import EdgeKind, EdgeList, RankGraph


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


def test_a_thread_waits_for_the_last_lock_that_another_frees() -> None:
    scene = Scene(devices=[])
    host, other = scene.thread(), scene.thread("worker")
    with host.frame("train.py(1): step", 10_000):
        with host.frame("<built-in method acquire of _thread.lock object at 0x7f01>") as wait:
            other.until(host.now)
            other.run("aten::mm", 3_000_000)
            with other.frame("<built-in method release of _thread.lock object at 0x7f02>", 1_000):
                pass
            with other.frame("<built-in method release of _thread.lock object at 0x7f01>", 1_000) as free:
                pass
            other.run("aten::add", 50_000)
            host.until(free.end + 20_000)
        host.run("aten::mm", 40_000)
    graph = rank_graph(scene.linked())
    assert (free.ts, wait.end) in thread_edges_of(graph)
    assert host_work(graph, lane_of=wait) == 50_000


def test_a_thread_that_keeps_the_interpreter_is_waited_for_until_it_waits_itself() -> None:
    scene = Scene(devices=[])
    host, other = scene.thread(), scene.thread("worker")
    with other.frame("<built-in method get of _queue.SimpleQueue object at 0x7f01>") as wait:
        host.spend(50_000)
        with host.frame("<built-in method put of _queue.SimpleQueue object at 0x7f01>", 1_000) as free:
            pass
        host.run("aten::mm", 900_000)
        with host.frame("<built-in method acquire of _thread.lock object at 0x7f02>", 500_000) as blocked:
            pass
        other.until(blocked.ts + 10_000)
    other.run("aten::mm", 100_000)
    graph = rank_graph(scene.linked())
    assert {(free.ts, wait.end), (blocked.ts, wait.end)} <= thread_edges_of(graph)


def test_a_lock_that_was_freed_long_before_is_not_what_a_thread_waited_for() -> None:
    scene = Scene(devices=[])
    host, other = scene.thread(), scene.thread("worker")
    with host.frame("<built-in method acquire of _thread.lock object at 0x7f01>", 1_000):
        with other.frame("<built-in method release of _thread.lock object at 0x7f01>", 1_000):
            pass
        other.run("aten::mm", 9_000_000)
        host.spend(5_000_000)
    assert thread_edges_of(rank_graph(scene.linked())) == set()


STEPS = 6
TARGETS_NS = 5_000_000
RESULT_NS = 60_000
"""From the end of what a worker does to the moment at which the loop goes on with its result."""

FORWARD_NS, BACKWARD_NS, GAP_NS = 1_000_000, 600_000, 20_000


def ops(host: Thread, *durations_ns: int) -> None:
    for number, duration in enumerate(durations_ns):
        host.run(f"aten::op_{number}", duration)
        host.spend(GAP_NS)


def with_worker(made_ns: Sequence[int], resumed_ns: Sequence[int]) -> tuple[Scene, set[tuple[int, int]]]:
    """In each step a worker takes its time beside the forward pass; the loop goes on so long behind it.

    The worker begins at once in each step, while the loop is busy: they do not alternate.
    """
    scene = Scene(devices=[])
    host, worker = scene.thread(), scene.thread("worker")
    waits = set()
    for number, (made, resumed) in enumerate(zip(made_ns, resumed_ns, strict=True)):
        with host.step(number, 10_000):
            worker.until(host.now + 150_000)
            ops(host, FORWARD_NS)
            with worker.annotation("make targets", made - 10_000):
                worker.run("aten::zeros", 10_000)
            ended = worker.now
            host.until(ended + resumed)
            waits.add((ended, host.now))
            ops(host, BACKWARD_NS, 30_000)
    return scene, waits


def test_a_loop_waits_for_a_future_and_gains_what_it_waits_for() -> None:
    scene, waits = with_worker([TARGETS_NS] * STEPS, [RESULT_NS] * STEPS)
    assert waits <= thread_edges_of(rank_graph(scene.linked()))
    found = tracebraid.what_if(dependency_graph(scene.linked()), "remove name='make targets'")
    assert found.gain_ns == pytest.approx(TARGETS_NS + RESULT_NS - FORWARD_NS, rel=0.1)


def test_a_loop_that_goes_on_by_itself_waits_for_nobody() -> None:
    """It resumes as late behind the worker as it was silent: what it did itself took that long."""
    resumed = [TARGETS_NS + 500_000 * number for number in range(STEPS)]
    scene, waits = with_worker([TARGETS_NS] * STEPS, resumed)
    assert not waits & thread_edges_of(rank_graph(scene.linked()))


def test_chance_is_no_proof() -> None:
    """Fewer times than it takes it resumes right behind the worker."""
    prompt = [RESULT_NS] * (FEWEST - 1)
    late = [TARGETS_NS + 500_000 * number for number in range(STEPS)]
    scene, waits = with_worker([TARGETS_NS] * (len(prompt) + STEPS), prompt + late)
    assert not waits & thread_edges_of(rank_graph(scene.linked()))


def test_an_annotation_says_what_a_thread_does() -> None:
    """It reads for as long as the worker takes: no wait."""
    scene = Scene(devices=[])
    host, worker = scene.thread(), scene.thread("worker")
    for number in range(STEPS):
        with host.step(number, 10_000):
            worker.until(host.now + 150_000)
            ops(host, FORWARD_NS)
            with worker.annotation("make targets", TARGETS_NS):
                worker.run("aten::zeros", 10_000)
            with host.annotation("read"):
                host.until(worker.now + RESULT_NS)
            ops(host, BACKWARD_NS, 30_000)
    assert thread_edges_of(rank_graph(scene.linked())) == set()


steady = settings(deadline=None, derandomize=True, max_examples=25)

events = st.lists(
    st.builds(op, st.just("op"), st.integers(0, 9), st.integers(0, 6), st.integers(1, 3)),
    min_size=1,
    max_size=12,
)
"""Nested, overlapping, without length, at equal times; on up to three threads."""


def chain_of(trace: list[Json]) -> tuple[RankGraph, EdgeList]:
    graph = rank_graph(linked_of(trace))
    return graph, graph.edges[graph.edges.kind == EdgeKind.HOST]


@pytest.mark.slow
@steady
@given(events)
def test_the_works_of_a_thread_add_up_to_its_time(trace: list[Json]) -> None:
    linked = linked_of(trace)
    activities = rank_activities(linked)
    table = activities.table.select("start_ns", "end_ns").to_numpy()
    times = np.ascontiguousarray(table).reshape(-1)
    edges = thread_edges(activities, times)
    assert (times.reshape(-1, 2) == table).all()
    assert (edges.work_ns == times[edges.after] - times[edges.before]).all()
    assert (edges.work_ns >= 0).all()
    for number, lane in enumerate(activities.lanes.tolist()):
        thread = activities.first_thread + number
        own = np.append(np.flatnonzero(activities.host.lane == lane), thread)
        spent = edges.work_ns[np.isin(edges.after // 2, own)].sum()
        assert spent == times[2 * thread + 1] - times[2 * thread]


@pytest.mark.full
@pytest.mark.slow
@steady
@given(events)
def test_every_moment_but_the_first_of_a_thread_follows_another_of_it(trace: list[Json]) -> None:
    graph, edges = chain_of(trace)
    host = host_rows(linked_of(trace))
    threads = len(np.unique(host.lane))
    moments = 2 * (len(host.event_id) + threads)
    firsts = 2 * (len(host.event_id) + np.arange(threads))
    assert sorted([*edges.after.tolist(), *firsts.tolist()]) == list(range(moments))
    assert len(np.unique(edges.before)) == len(edges)
    lane = np.append(np.repeat(host.lane, 2), np.repeat(np.unique(host.lane), 2))
    assert (lane[edges.before] == lane[edges.after]).all()
    assert graph.activities.height == moments // 2


@pytest.mark.parametrize(
    ("trace", "spent"),
    [
        (
            [op("outer", 0, 10), op("inner", 2, 3), op("last", 12, 1)],
            {"outer": 7_000, "inner": 3_000, "last": 1_000, None: 2_000},
        ),
        ([op("first", 0, 10), op("second", 5, 10)], {"first": 5_000, "second": 10_000, None: 0}),
    ],
    ids=["the innermost", "the later of two that overlap"],
)
def test_time_belongs_to_the_innermost_event(trace: list[Json], spent: dict[str | None, int]) -> None:
    graph, edges = chain_of(trace)
    *names, thread = graph.activities.get_column("name").cast(str).to_list()
    owners = [
        ([*names, None][edge], int(work)) for edge, work in zip(edges.activity, edges.work_ns, strict=True)
    ]
    assert {name: sum(work for owner, work in owners if owner == name) for name in spent} == spent
    assert thread not in names
