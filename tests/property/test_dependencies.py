"""Whatever a trace holds, its dependencies close no cycle and are true in time."""

from __future__ import annotations

import json
import tempfile
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, call, complete, kernel, node, op
from tests.unit.linking.made import et_of, linked_of
from tracebraid.api import write_et_plus
from tracebraid.linking.nesting import TOLERANCE_NS

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
        st.builds(
            host_op,
            times,
            threads,
            few,
            st.integers(0, 1),
        ),
        st.builds(
            runtime_call,
            st.sampled_from(CALLS),
            times,
            few,
            threads,
        ),
        st.builds(
            device_work,
            st.sampled_from(["gemm", "Memcpy DtoH (Device -> Pageable)"]),
            times,
            few,
            streams,
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
