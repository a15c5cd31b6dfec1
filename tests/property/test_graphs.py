"""Dependencies and graphs of any scene, and their replay."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.builders import Json, call, complete, kernel, node, op
from tests.planted import Host, PlannedJob
from tests.planted.graphs import check_graph, graph_of
from tests.unit.linking.made import et_of, linked_of
from tracebraid import write_et_plus
from tracebraid.graph.coverage import coverage_of
from tracebraid.linking.nesting import TOLERANCE_NS
from tracebraid.model.graph import Edges
from tracebraid.simulation.replay import replay
from tracebraid.simulation.sweep import Scenarios, replay_many

steady = settings(deadline=None, derandomize=True, max_examples=30)
times = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda draw: (draw[0] * 40, draw[1] * 40))
few = st.integers(1, 6)
threads, streams = st.integers(1, 2), st.integers(7, 8)

CALLS = [
    "cudaLaunchKernel",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy",
]

SYNCS = ["Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"]


def sync(kind: str, time: tuple[int, int], ids: tuple[int, int], stream: int, other: int) -> Json:
    args: dict[str, Any] = {"cuda_sync_kind": kind, "stream": stream, "device": 0, "correlation": ids[0]}
    args |= {"wait_on_stream": other, "wait_on_cuda_event_record_corr_id": ids[1]}
    return complete(kind, "cuda_sync", *time, pid=0, tid=-1, args=args)


def host_op(time: tuple[int, int], tid: int, seq: int, fwd: int) -> Json:
    return op("op", *time, tid=tid, Sequence_number=seq, Fwd_thread_id=fwd)


def runtime_call(name: str, time: tuple[int, int], correlation: int, tid: int) -> Json:
    return call(name, *time, correlation, tid)


def device_work(name: str, time: tuple[int, int], correlation: int, stream: int) -> Json:
    return kernel(name, *time, correlation, stream)


events = st.lists(
    st.one_of(
        st.builds(host_op, times, threads, few, st.integers(0, 1)),
        st.builds(runtime_call, st.sampled_from(CALLS), times, few, threads),
        st.builds(
            device_work, st.sampled_from(["gemm", "Memcpy DtoH (Device -> Pageable)"]), times, few, streams
        ),
        st.builds(sync, st.sampled_from(SYNCS), times, st.tuples(few, few), streams, streams),
    ),
    max_size=30,
)
"""Any events at all: time, streams and ids need not make sense together."""


@steady
@given(events)
def test_moments_can_be_ordered_so_that_all_dependencies_go_forward(trace: list[Json]) -> None:
    linked = linked_of(trace)
    graph: TopologicalSorter[tuple[int, str]] = TopologicalSorter()
    for event in range(linked.timeline.events.height):
        graph.add((event, "end"), (event, "start"))
    for before, at, after, then in linked.dependencies.select(
        "before_event", "before_moment", "after_event", "after_moment"
    ).iter_rows():
        graph.add((after, then), (before, at))
    graph.prepare()


@steady
@given(events)
def test_dependencies_hold_in_time_but_for_rounding(trace: list[Json]) -> None:
    linked = linked_of(trace)
    start = linked.timeline.events.get_column("ts_ns")
    end = start + linked.timeline.events.get_column("dur_ns")
    slack = [
        (end if then == "end" else start)[after] - (end if at == "end" else start)[before]
        for before, at, after, then in linked.dependencies.select(
            "before_event", "before_moment", "after_event", "after_moment"
        ).iter_rows()
    ]
    assert slack == linked.dependencies.get_column("slack_ns").to_list()
    assert all(one >= -TOLERANCE_NS for one in slack)


@pytest.mark.full
@steady
@given(events)
def test_the_same_trace_gives_the_same_dependencies(trace: list[Json]) -> None:
    assert linked_of(trace).dependencies.equals(linked_of(trace).dependencies)


steps = st.lists(
    st.tuples(threads, st.integers(0, 4), streams, st.integers(1, 12), st.booleans()), min_size=3, max_size=12
)
"""Thread of an op, how many later ops it lasts over, and its kernel's stream and length; whether the thread waits."""

parents = st.lists(st.integers(0, 12), min_size=12, max_size=12)


def job(drawn: list[tuple[int, int, int, int, bool]]) -> list[Json]:
    """Ops that launch work and wait for the device, every 300 µs one."""
    made = []
    for number, (tid, over, stream, length, waits) in enumerate(drawn):
        ts = 300 * number
        made.append(op("op", ts, 100 + 300 * over, tid, Sequence_number=1, Fwd_thread_id=tid - 1))
        made.append(call("cudaLaunchKernel", ts + 10, 5, 2 * number + 1, tid))
        made.append(kernel("gemm", ts + 20, 50 * length, 2 * number + 1, stream))
        if waits:
            made.append(call("cudaDeviceSynchronize", ts + 30, 50 * length, 2 * number + 2, tid))
    return made


@pytest.mark.full
@steady
@given(steps, parents)
def test_nodes_of_et_plus_close_no_cycle_in_the_order_in_which_they_are_run(
    drawn_steps: list[tuple[int, int, int, int, bool]], drawn: list[int]
) -> None:
    """Parents are drawn at random, as if the observer had lost track of them."""
    trace = job(drawn_steps)
    ops = [one for one in trace if one["cat"] == "cpu_op"]
    for number, one in enumerate(ops):
        one["args"]["Record function id"] = number + 1
    nodes = []
    for number, one in enumerate(ops):
        parent = 1000 + one["tid"] if drawn[number] >= number else 20 + drawn[number]
        nodes.append(node(20 + number, "op", parent, rf_id=number + 1, tid=one["tid"]))
    with tempfile.TemporaryDirectory() as folder:
        write_et_plus(linked_of(trace, et_of(*nodes, threads=2)), Path(folder) / "et_plus.json")
        written = json.loads((Path(folder) / "et_plus.json").read_text())["nodes"]
    waits = run_in_turn({one["id"]: one for one in written})
    assert all(other in waits for some in waits.values() for other in some)
    TopologicalSorter(waits).prepare()


def run_in_turn(nodes: dict[int, Json]) -> dict[int, list[int]]:
    """What each node waits for, if a thread's nodes are run from its root down in the order of ids.

    Device work waits for the host node that is run before it; host nodes wait for no device work of their own.
    """
    waits: dict[int, list[int]] = {}
    children: dict[int, list[int]] = {one: [] for one in nodes}
    for one in sorted(nodes):
        given = nodes[one]
        waits[one] = [*given.get("sync_dep", []), *filter(None, [given.get("inter_thread_dep")])]
        if given["ctrl_deps"] != one:
            waits[one].append(given["ctrl_deps"])
            children[given["ctrl_deps"]].append(one)
    for root in [one for one in nodes if nodes[one]["name"].endswith("|thread]")]:
        last, stack = root, children[root][::-1]
        while stack:
            one = stack.pop()
            waits[one].append(last)
            last = last if "cat" in nodes[one] else one
            stack += children[one][::-1]
    return waits


if TYPE_CHECKING:
    from collections.abc import Callable


HOSTS = (Host("a"), Host("b", ahead_ns=-7_000_000, drift_ppm=30.0))
LONGEST_NS = 300_000


@st.composite
def jobs(draw: Callable[..., int]) -> PlannedJob:
    """A job of two to four ranks with collectives and sends, of which members may be lost."""
    ranks = draw(st.integers(2, 4))
    draw_ns = st.integers(0, LONGEST_NS)
    job = PlannedJob(
        ranks,
        hosts=HOSTS if draw(st.booleans()) else HOSTS[:1],
        **({"devices": ()} if draw(st.booleans()) else {}),  # type: ignore[arg-type]
    )
    for number in range(1, 1 + draw(st.integers(1, 3))):
        with job.step(number):
            for _ in range(draw(st.integers(0, 2))):
                job.compute(draw(draw_ns), [draw(st.integers(0, ranks - 1))])
                if draw(st.booleans()):
                    job.send(0, ranks - 1, transfer=draw(draw_ns))
                jitter = {draw(st.integers(0, ranks - 1)): draw(st.integers(-50_000, 50_000))}
                lost = [0] if draw(st.integers(0, 4)) == 0 else []
                job.collective(transfer=draw(draw_ns), jitter=jitter, lost=lost)
    return job


@pytest.mark.full
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), missing=st.booleans())
def test_joined_graphs_reproduce_what_was_measured(job: PlannedJob, missing: bool) -> None:
    graph = graph_of(job, missing=[job.world_size - 1] if missing else [])
    check_graph(graph)
    found = coverage_of(graph)
    assert found.get_column("ns").min() is None or found.get_column("ns").min() > 0  # type: ignore[operator]


steady_replays = settings(deadline=None, derandomize=True, max_examples=40)
Ints = NDArray[np.int64]
most_ns = 1_000
moments = st.integers(1, 25)
durations = st.integers(0, most_ns)


@dataclass(frozen=True)
class Drawn:
    """A graph, of which only the arrays that a replay reads are there."""

    edges: Edges
    residual_ns: Ints

    def replay(self, work_ns: Ints | None = None, residual_ns: Ints | None = None) -> Ints:
        work = self.edges.work_ns if work_ns is None else work_ns
        residual = self.residual_ns if residual_ns is None else residual_ns
        return replay(self.edges.first, self.edges.before, work, residual)


@st.composite
def graphs(draw: st.DrawFn) -> Drawn:
    count = draw(moments)
    pairs = [(before, after) for after in range(count) for before in range(after)]
    drawn = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=60)) if pairs else []
    drawn.sort(key=lambda pair: pair[1])
    before = np.array([pair[0] for pair in drawn], dtype=np.int32)
    after = np.array([pair[1] for pair in drawn], dtype=np.int64)
    first = np.searchsorted(after, np.arange(count + 1)).astype(np.int64)
    work = np.array(draw(st.lists(durations, min_size=len(drawn), max_size=len(drawn))), dtype=np.int64)
    residual = np.array(draw(st.lists(durations, min_size=count, max_size=count)), dtype=np.int64)
    kind = np.zeros(len(drawn), dtype=np.uint8)
    return Drawn(Edges(first, before, work, kind, np.zeros(len(drawn), dtype=np.int32)), residual)


@given(graphs(), st.data())
@steady_replays
def test_no_moment_is_earlier_when_work_grows(graph: Drawn, data: st.DataObject) -> None:
    count = len(graph.edges)
    more = np.array(data.draw(st.lists(durations, min_size=count, max_size=count)), dtype=np.int64)
    assert (graph.replay(graph.edges.work_ns + more) >= graph.replay()).all()


@given(graphs(), st.integers(0, 7))
@steady_replays
def test_times_scale_with_all_that_takes_time(graph: Drawn, factor: int) -> None:
    scaled = graph.replay(graph.edges.work_ns * factor, graph.residual_ns * factor)
    assert (scaled == factor * graph.replay()).all()


@given(graphs(), st.data(), durations)
@steady_replays
def test_work_of_an_edge_that_grows_delays_by_at_most_as_much(
    graph: Drawn, data: st.DataObject, more: int
) -> None:
    if not len(graph.edges):
        return
    work = graph.edges.work_ns.copy()
    work[data.draw(st.integers(0, len(work) - 1))] += more
    delay = graph.replay(work) - graph.replay()
    assert ((delay >= 0) & (delay <= more)).all()


@given(graphs())
@steady_replays
def test_every_edge_and_residual_is_kept(graph: Drawn) -> None:
    times = graph.replay()
    after = np.repeat(np.arange(len(times)), np.diff(graph.edges.first))
    ready = times[graph.edges.before] + graph.edges.work_ns
    assert (times[after] >= ready + graph.residual_ns[after]).all()
    has_edges = np.diff(graph.edges.first) > 0
    assert (times[~has_edges] == graph.residual_ns[~has_edges]).all()


@given(graphs(), st.data(), st.integers(1, 5), st.sampled_from([1, 10_000]))
@steady_replays
def test_many_scenarios_are_the_replays_of_each(
    graph: Drawn, data: st.DataObject, groups: int, budget_bytes: int
) -> None:
    count = len(graph.edges)
    group = np.array(
        data.draw(st.lists(st.integers(0, groups - 1), min_size=count, max_size=count)), dtype=np.int32
    )
    factors = st.lists(st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.5]), min_size=groups, max_size=groups)
    factor = np.array(data.draw(st.lists(factors, min_size=1, max_size=4)))
    chosen = np.flatnonzero(np.arange(len(graph.residual_ns)) % 2 == 0)
    found = replay_many(graph.edges, graph.residual_ns, Scenarios(group, factor), chosen, budget_bytes)
    for row, of_groups in enumerate(factor):
        work = np.rint(graph.edges.work_ns * of_groups[group]).astype(np.int64)
        assert (found[row] == graph.replay(work)[chosen]).all()
