"""Device events with durations that cannot be, replicas of what users reported among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.analysis.validity.training import (
    CUDA_8,
    CUDA_9,
    STEP_US,
    doubts,
    is_call,
    is_device,
    linked,
    number_of,
    steps,
    without,
)
from tests.unit.importers.nsys import nsys_file
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.validity.validity import validity
from tracebraid.api import link

OVERFLOWS, OUTLASTS, DOMINATES, OVERLAPS, MISSING = (
    "duration-overflows",
    "outlasts-trace",
    "event-dominates",
    "stream-overlaps",
    "device-events-missing",
)
HIP: Json = {"name": "AMD Instinct", "computeMajor": 9, "computeMinor": 4}
UNKNOWN: Json = {"name": "new"}


def changed(events: list[Json], correlation: int, **members: Any) -> list[Json]:
    """The events with other members in the kernel of a correlation."""
    return [
        {**e, **members} if is_device(e) and e["args"]["correlation"] == correlation else e for e in events
    ]


def as_hip(events: list[Json]) -> list[Json]:
    return [{**e, "name": "hipLaunchKernel"} if is_call(e) else e for e in events]


# --- AMD-AGI/TraceLens#669: a duration runs over the next events of its stream --------------------------


@pytest.mark.parametrize("device", [CUDA_8, CUDA_9, HIP, UNKNOWN])
def test_a_duration_that_runs_over_the_next_kernels_of_its_stream_is_found(device: Json) -> None:
    """The stream stalls, and a kernel's end is written when the queue is flushed."""
    events = changed(steps(8), 205, dur=1.6 * STEP_US)
    events = as_hip(events) if device is HIP else events
    assert doubts(events, device) == [("2", OVERLAPS, 1), ("3", OVERLAPS, 1)]


def test_each_event_that_runs_over_others_counts() -> None:
    events = changed(changed(steps(4), 103, dur=100), 110, dur=200)
    found = validity(linked(events)).to_dicts()
    assert [(row["count"], row["time_ns"]) for row in found] == [(2, 300_000)]
    first = linked(events).timeline.device_work.row(22, named=True)
    assert (found[0]["event_id"], first["correlation"]) == (first["event_id"], 103)


@pytest.mark.parametrize(("device", "expected"), [(CUDA_8, 1), (CUDA_9, 0), (UNKNOWN, 0)])
def test_a_kernel_may_start_before_its_predecessor_ends_where_launches_may_depend(
    device: Json, expected: int
) -> None:
    """Programmatic dependent launch: start to start with a lag, end to end in order."""
    events = changed(steps(4), 105, dur=60)
    assert len(doubts(events, device)) == expected


def test_rocm_runs_a_stream_in_order_whatever_its_major() -> None:
    assert doubts(as_hip(changed(steps(4), 105, dur=60)), HIP) == [("1", OVERLAPS, 1)]


@pytest.mark.parametrize(("device", "expected"), [(CUDA_8, 1), (HIP, 0)])
def test_streams_of_rocm_that_share_a_queue_may_communicate_meanwhile(device: Json, expected: int) -> None:
    name = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
    events = changed(steps(4), 105, dur=300, name=name)
    assert len(doubts(as_hip(events) if device is HIP else events, device)) == expected


@pytest.mark.parametrize("device", [CUDA_8, CUDA_9])
def test_rounding_is_no_overlap(device: Json) -> None:
    assert doubts(changed(steps(4), 105, dur=45 + 4), device) == []


def test_nodes_of_a_graph_may_overlap() -> None:
    """All have the correlation of the launch of the graph."""
    nodes = [kernel(f"node_{i}", 1990 + i, 8, 42) for i in range(4)]
    events = [*without(steps(3), lambda e: is_device(e) and 1900 < e["ts"] < 2000), *nodes]
    assert [doubt for _, doubt, _ in doubts(events) if doubt == OVERLAPS] == []


@pytest.mark.parametrize(
    ("name", "dur_us", "expected"),
    [("branch", 200, []), ("node", 20, []), ("node", 200, [("0", OVERLAPS, 1)])],
)
def test_a_node_that_runs_over_others_of_its_graph_is_found_by_its_name(
    name: str, dur_us: int, expected: list[tuple[str, str, int]]
) -> None:
    """A branch of the graph is as long in every layer."""
    nodes = [kernel("node", 500 + 10 * i, 8, 42) for i in range(30)]
    long = [kernel(name, 505 + 80 * i, dur_us, 42) for i in range(3 if name == "branch" else 1)]
    step = op("ProfilerStep#0", 0, 990, cat="user_annotation")
    launch = call("cudaGraphLaunch", 400, 10, 42)
    assert doubts([step, launch, *nodes, *long]) == expected


def test_other_streams_may_overlap() -> None:
    assert doubts([*steps(3), *(kernel("k", 1000 + 30 * i, 25, 9000 + i, stream=9) for i in range(30))]) == []


# --- AMD-AGI/TraceLens#972: few steps have device events, and one of them makes nearly all the time ------


def test_one_event_that_makes_nearly_all_device_time_is_found() -> None:
    """99.07 % in one event; 30 of 32 steps without any: said of each, before the figures."""
    lost = without(steps(32), lambda e: is_device(e) and number_of(e) >= 2)
    time_us = 40 * 30 * 0.9907 / 0.0093
    events = [*lost, kernel("malformed", 2100, time_us, 424_242)]
    linked_trace = linked(events)
    found = validity(linked_trace)
    with_doubt = {(step, doubt) for step, doubt in found.select("step", "doubt").rows()}
    named = [f"ProfilerStep#{number}" for number in range(2, 32)]
    assert {(step, MISSING) for step in named} | {(step, DOMINATES) for step in named} <= with_doubt
    rows = breakdown(linked_trace)
    assert set(rows.filter("doubtful").get_column("step").to_list()) == {None, *named}


def test_an_event_that_dominates_its_step_alone_is_found() -> None:
    events = changed(steps(3), 220, dur=900 + 40_000)
    events = [*events, op("cudaDeviceSynchronize", 3000, 60_000)]
    assert doubts(events) == [("2", DOMINATES, 1)]


def test_the_longest_of_few_events_does_not_dominate() -> None:
    for kernels, expected in ((9, []), (12, [("0", DOMINATES, 1)])):
        events = without(steps(1), lambda e, last=45 * kernels: e["ts"] > last)  # type: ignore[misc]
        assert doubts([*changed(events, kernels, dur=40_000), op("wait", 900, 60_000)]) == expected


def test_kernels_that_are_long_in_every_step_do_not_dominate() -> None:
    """One large fused kernel and some small ones."""
    events = steps(5)
    for number in range(5):
        events = changed(events, 100 * number + 20, name="fused", ts=1000 * number + 900, dur=99)
    small = [{**e, "dur": 0.01} if is_device(e) and e["name"] != "fused" else e for e in events]
    assert doubts(small) == []


def test_a_copy_may_be_long_where_it_is_large() -> None:
    """1 GB/s, and 1 MB/s."""
    host = op("wait", 3000, 60_000)
    for size, expected in ((40_000_000, []), (40_000, [("2", DOMINATES, 1)])):
        copy = kernel("Memcpy HtoD (Pageable -> Device)", 2950, 40_000, 220, 9, cat="gpu_memcpy", bytes=size)
        rest = without(steps(3), lambda e: is_device(e) and e["args"]["correlation"] == 220)
        assert doubts([*rest, copy, host]) == expected


def test_a_collective_may_wait_long() -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    events = changed(steps(3), 220, dur=20_000, name=name)
    assert doubts([*events, op("wait", 3000, 60_000)]) == []


# --- durations that overflow, or outlast the trace -----------------------------------------------------


@pytest.mark.parametrize("dur", [-1.0, 2**64 / 1000, 2**64, 2**63, 1e300, None, "long"])
def test_a_duration_that_wraps_around_is_found_in_its_step(dur: object) -> None:
    assert doubts(changed(steps(4), 105, dur=dur)) == [("1", OVERFLOWS, 1)]


def test_a_duration_of_the_host_that_wraps_around_is_found() -> None:
    events = steps(4)
    events[62] = {**events[62], "dur": -4}
    assert events[62]["cat"] == "cpu_op"
    assert doubts(events) == [("1", OVERFLOWS, 1)]


def test_a_step_whose_own_duration_is_damaged_is_doubted() -> None:
    events = [{**e, "dur": -1} if e["name"] == "ProfilerStep#2" else e for e in steps(4)]
    assert ("2", OVERFLOWS, 1) in doubts(events)


def test_absurd_durations_that_fit_into_the_table_outlast_the_trace() -> None:
    """100 days; every step while it runs is falsified."""
    events = changed(steps(4), 220, dur=100 * 86_400e6)
    assert ("2", OUTLASTS, 1) in doubts(events)
    assert ("3", OUTLASTS, 1) in doubts(events)
    assert all(step in ("2", "3") for step, _, _ in doubts(events))


def test_work_may_go_on_when_the_last_call_is_over() -> None:
    """Nothing says when the profiler stopped."""
    assert OUTLASTS not in [doubt for _, doubt, _ in doubts(changed(steps(4), 320, dur=20_000))]


def test_work_that_ends_after_the_profiler_stopped_outlasts_the_trace() -> None:
    span = {**op("PyTorch Profiler (0)", 0, 4100, cat="Trace"), "pid": "Spans", "tid": "PyTorch Profiler"}
    assert doubts([*steps(4), span]) == []
    assert doubts([*changed(steps(4), 320, dur=200), span]) == []
    assert doubts([*changed(steps(4), 320, dur=20_000), span]) == [
        ("3", OUTLASTS, 1),
        ("3", DOMINATES, 1),
    ]


def test_work_that_begins_long_before_the_trace_is_found() -> None:
    events = [{**e, "ts": e["ts"] + 1e10} for e in steps(4)]
    assert doubts(events) == []
    early = [{**e, "ts": 0} if is_device(e) and e["args"]["correlation"] == 105 else e for e in events]
    assert [doubt for _, doubt, _ in doubts(early)] == [OUTLASTS]


def test_an_export_of_nsight_systems_has_its_doubt_in_no_step(tmp_path: Path) -> None:
    """Its reader counts the rows that end before they start, and does not name them."""
    sound, damaged = nsys_file.kernel("k", 2_000, 3_000, 1), nsys_file.kernel("k", 5_000, 4_000, 2)
    for rows, expected in (([sound], []), ([sound, damaged], [(None, OVERFLOWS, 1)])):
        path = nsys_file.write_export(tmp_path / f"nsys_{len(rows)}.sqlite", nsys_file.whole(*rows))
        assert validity(link(None, path)).select("step", "doubt", "count").rows() == expected
