"""Doubts about steps: device events that are missing or damaged; and sound traces that only look unusual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, call, kernel, op
from tests.cases import cases
from tests.planted import A100, H100, MI300X, V100, Scene, Stream, Thread, device_scene
from tests.planted.equal_steps import (
    CUDA_8,
    CUDA_9,
    KERNELS,
    STEP_US,
    doubts,
    is_call,
    is_device,
    linked,
    number_of,
    steps,
    without,
)
from tests.planted.scenes import KERNEL_NS, clean
from tests.unit.importers.nsys import nsys_file
from tracebraid import link
from tracebraid.analyses import breakdown, validity

MISSING, NO_WORK = "device-events-missing", "launch-without-work"
OVERFLOWS, OUTLASTS = "duration-overflows", "outlasts-trace"
DOMINATES, OVERLAPS = "event-dominates", "stream-overlaps"
HIP: Json = {"name": "AMD Instinct", "computeMajor": 9, "computeMinor": 4}
UNKNOWN: Json = {"name": "new"}
NCCL = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"


def lost(event: Json) -> bool:
    return is_device(event) or is_call(event)


def changed(events: list[Json], correlation: int, **members: Any) -> list[Json]:
    """The events with other members in the kernel of a correlation."""
    return [
        {**e, **members} if is_device(e) and e["args"]["correlation"] == correlation else e for e in events
    ]


def as_hip(events: list[Json]) -> list[Json]:
    return [{**e, "name": "hipLaunchKernel"} if is_call(e) else e for e in events]


def test_a_stretch_cut_off_within_a_step_is_found_with_and_without_its_calls() -> None:
    half = 1.45 * STEP_US
    events = without(steps(4), lambda e: is_device(e) and half <= e["ts"] < 2 * STEP_US)
    [(step, doubt, count)] = doubts(events)
    assert (step, doubt) == ("1", MISSING)
    assert count == KERNELS / 2
    events = without(steps(4), lambda e: (is_device(e) or is_call(e)) and half <= e["ts"] < 2 * STEP_US)
    assert [(step, doubt) for step, doubt, _ in doubts(events)] == [("1", MISSING)]


def copies(number: int, working: int) -> list[Json]:
    """Ten calls that copy, in a step; so many with work."""
    found = []
    for i in range(10):
        at, correlation = number * STEP_US + 20 + 45 * i, 5000 + 100 * number + i
        found.append(call("cudaMemcpyAsync", at, 2, correlation))
        if i < working:
            copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "pid": 0, "tid": 9}
            args = {"device": 0, "stream": 9, "correlation": correlation}
            found.append({**copy, "ts": at + 10, "dur": 5, "args": args})
    return found


COPYING = [*steps(4), *(event for number in (0, 2, 3) for event in copies(number, working=10))]
LATE = call("cudaLaunchKernel", 9000, 5, 9999)
RECORDED = [call("cudaLaunchKernel", 5000 + 10 * i, 5, 7000 + i) for i in range(5)]
BEGIN, END = call("cudaStreamBeginCapture", 4990, 2, 6990), call("cudaStreamEndCapture_v2", 5100, 2, 6991)
CALLS = [event for event in steps(2) if is_call(event)]
LAUNCHERS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx", "hipExtModuleLaunchKernel")
WITHOUT_WORK = ("cudaMemsetAsync", "cudaStreamSynchronize", "cudaLaunchHostFunc")


@pytest.mark.slow
@cases(
    "events, expected",
    {
        **{f"sound: {api}": (steps(4, api), []) for api in LAUNCHERS},
        "launches of a step have no work": (
            without(steps(4), lambda e: is_device(e) and number_of(e) == 2),
            [("2", MISSING, KERNELS)],
        ),
        "a step lost calls and work": (
            without(steps(4), lambda e: lost(e) and number_of(e) == 2),
            [("2", MISSING, KERNELS)],
        ),
        # AMD-AGI/TraceLens#972: 30 of 32 steps had none.
        "most steps lost their work": (
            without(steps(32), lambda e: is_device(e) and number_of(e) >= 2),
            [(str(number), MISSING, KERNELS) for number in range(2, 32)],
        ),
        "most steps lost calls and work": (
            without(steps(32), lambda e: lost(e) and number_of(e) >= 2),
            [(str(number), MISSING, KERNELS) for number in range(2, 32)],
        ),
        "two launches without work": (
            without(steps(4), lambda e: is_device(e) and e["args"]["correlation"] in (105, 107)),
            [("1", NO_WORK, 2)],
        ),
        "a launch in no step": ([*steps(2), LATE], [(None, MISSING, 1)]),
        # One that had not run yet when the profiler stopped hardly changes any figure.
        "one of many launches": ([*steps(6), LATE], []),
        "no device event": (without(steps(1), is_device), [("0", MISSING, KERNELS)]),
        "neither launches nor device events": (without(steps(3), lost), []),
        "nothing": ([], []),
        "one op": ([op("a", 0, 1)], []),
        "a kernel without arguments": ([{**kernel("k", 0, 0, 1), "args": {}}], []),
        # A fill of no bytes has no work.
        **{
            f"no need of work: {name}": (
                [*steps(3), *(call(name, 1005 + 45 * i, 2, 5000 + i) for i in range(5))],
                [],
            )
            for name in WITHOUT_WORK
        },
        "all copies work": ([*COPYING, *copies(1, working=10)], []),
        "one copy does not": ([*COPYING, *copies(1, working=9)], []),
        "nine copies do not, as they do in other steps": (
            [*COPYING, *copies(1, working=1)],
            [("1", MISSING, 9)],
        ),
        "recorded into a graph": ([*steps(2), BEGIN, *RECORDED, END], []),
        "recorded since before the trace": ([*steps(2), *RECORDED, END], []),
        "recorded on HIP": ([*steps(2), *RECORDED, call("hipGraphInstantiate", 5100, 2, 6991)], []),
        "launched after it": (
            [*steps(2), BEGIN, *RECORDED, END, call("cudaLaunchKernel", 5200, 5, 7100)],
            [(None, MISSING, 1)],
        ),
        "a launch in the call that has its work": (
            [*steps(2), *(call("cuLaunchKernel", e["ts"] + 1, 2, 8000 + i) for i, e in enumerate(CALLS))],
            [],
        ),
        "a launch around it": (
            [*steps(2), *(call("hipLaunchKernel", e["ts"] - 0.5, 7, 9000 + i) for i, e in enumerate(CALLS))],
            [],
        ),
        "fewer ops may have fewer kernels": (
            without(
                steps(5), lambda e: number_of(e) == 4 and e["ts"] > 4300 and not e["name"].startswith("P")
            ),
            [],
        ),
        "other streams may overlap": (
            [*steps(3), *(kernel("k", 1000 + 30 * i, 25, 9000 + i, stream=9) for i in range(30))],
            [],
        ),
        **{
            f"a duration that wraps around: {dur}": (changed(steps(4), 105, dur=dur), [("1", OVERFLOWS, 1)])
            for dur in (-1.0, 2**64 / 1000, 2**64, 2**63, 1e300, None, "long")
        },
        "one of the host": (
            [{**e, "dur": -4} if e["cat"] == "cpu_op" and e["ts"] == 1010 else e for e in steps(4)],
            [("1", OVERFLOWS, 1)],
        ),
    },
)
def test_doubts_of_a_trace(events: list[Json], expected: list[tuple[str | None, str, int]]) -> None:
    assert doubts(events) == expected


def test_more_kernels_in_a_first_step_are_no_doubt_about_the_rest() -> None:
    """cudnn.benchmark launches many kernels under one op."""
    more = [op("aten::conv2d", 960, 20)]
    for i in range(60):
        more += [call("cudaLaunchKernel", 961 + i / 10, 0.05, 600_000 + i)]
        more += [{**steps(1)[3], "ts": 970 + i / 10, "dur": 0.05, "args": {"correlation": 600_000 + i}}]
    others = [op("aten::conv2d", 1000 * i + 960, 20) for i in range(1, 4)]
    assert doubts([*steps(4), *more, *others]) == []


LONG = {"dur": 1.6 * STEP_US}
TWO = [("2", OVERLAPS, 1), ("3", OVERLAPS, 1)]
ONE = TWO[:1]


@pytest.mark.slow
@cases(
    "device, members, expected",
    {
        # AMD-AGI/TraceLens#669: the stream stalls, and a kernel's end is written when the queue is flushed.
        "over the next kernels": (CUDA_8, LONG, TWO),
        "of 9.0": (CUDA_9, LONG, TWO),
        "of ROCm": (HIP, LONG, TWO),
        "of an unknown device": (UNKNOWN, LONG, TWO),
        "into the next kernel": (CUDA_8, {"dur": 60}, ONE),
        # Programmatic dependent launch: start to start with a lag, end to end in order.
        "launches may depend": (CUDA_9, {"dur": 60}, []),
        "of an unknown device they may, too": (UNKNOWN, {"dur": 60}, []),
        "ROCm runs a stream in order whatever its major": (HIP, {"dur": 60}, ONE),
        "communication": (CUDA_8, {"dur": 300, "name": NCCL}, ONE),
        "streams of ROCm that share a queue": (HIP, {"dur": 300, "name": NCCL}, []),
        "rounding": (CUDA_8, {"dur": 45 + 4}, []),
        "rounding of 9.0": (CUDA_9, {"dur": 45 + 4}, []),
    },
)
def test_a_duration_that_runs_over_the_next_kernels_of_its_stream_is_found(
    device: Json, members: Json, expected: list[tuple[str, str, int]]
) -> None:
    events = changed(steps(8), 205, **members)
    assert doubts(as_hip(events) if device is HIP else events, device) == expected


def test_each_event_that_runs_over_others_counts() -> None:
    events = changed(changed(steps(4), 103, dur=100), 110, dur=200)
    found = validity(linked(events)).to_dicts()
    assert [(row["count"], row["time_ns"]) for row in found] == [(2, 300_000)]
    first = linked(events).timeline.device_work.row(22, named=True)
    assert (found[0]["event_id"], first["correlation"]) == (first["event_id"], 103)


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


@pytest.mark.parametrize(
    ("members", "wait_us", "expected"),
    [
        ({"dur": 900 + 40_000}, 60_000, [("2", DOMINATES, 1)]),
        ({"dur": 20_000, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}, 60_000, []),
    ],
    ids=["a kernel", "a collective may wait long"],
)
def test_an_event_that_dominates_its_step_alone_is_found(
    members: Json, wait_us: int, expected: list[tuple[str, str, int]]
) -> None:
    assert doubts([*changed(steps(3), 220, **members), op("wait", 3000, wait_us)]) == expected


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


def test_a_step_whose_own_duration_is_damaged_is_doubted() -> None:
    events = [{**e, "dur": -1} if e["name"] == "ProfilerStep#2" else e for e in steps(4)]
    assert ("2", OVERFLOWS, 1) in doubts(events)


def test_absurd_durations_that_fit_into_the_table_outlast_the_trace() -> None:
    """100 days. Where later kernels of the stream prove it wrong, it is no duration of that step; else it outlasts."""
    events, absurd = steps(4), 100 * 86_400e6
    assert doubts(changed(events, 220, dur=absurd)) == [("2", OVERFLOWS, 1)]
    last = max(event["args"]["correlation"] for event in events if is_device(event))
    assert doubts(changed(events, last, dur=absurd)) == [("3", OUTLASTS, 1), ("3", DOMINATES, 1)]


@cases(
    "dur_us, expected",
    {
        "in time": (30, []),
        "a little later": (200, []),
        "long after": (20_000, [("3", OUTLASTS, 1), ("3", DOMINATES, 1)]),
    },
)
def test_work_that_ends_after_the_profiler_stopped_outlasts_the_trace(
    dur_us: int, expected: list[tuple[str, str, int]]
) -> None:
    span = {**op("PyTorch Profiler (0)", 0, 4100, cat="Trace"), "pid": "Spans", "tid": "PyTorch Profiler"}
    assert doubts([*changed(steps(4), 320, dur=dur_us), span]) == expected


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


MS = 1_000_000


def found_in(scene: Scene) -> list[tuple[str | None, str]]:
    return [(step, doubt) for step, doubt in validity(scene.linked()).select("step", "doubt").rows()]


def many_small(host: Thread, stream: Stream, count: int = 12) -> None:
    for _ in range(count):
        with host.op("aten::add"):
            host.launch(stream, "small", 2_000)


def waits_for_checkpoint(synchronizes: bool) -> Scene:
    """In step 3 another rank comes 10 s late to the collective; work queued behind it starts at its end."""
    scene = Scene(0, 2)
    host, compute, communication = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, 5):
        with host.step(number):
            many_small(host, compute)
            host.wait_event(communication, host.record(compute))
            host.collective(communication, 10_000 * MS if number == 3 else 200_000)
            host.wait_event(compute, host.record(communication))
            many_small(host, compute, 1)
            if synchronizes:
                host.synchronize()
    host.synchronize()
    return scene


@pytest.mark.parametrize("synchronizes", [True, False])
def test_a_collective_may_wait_for_as_long_as_a_checkpoint_takes(synchronizes: bool) -> None:
    assert found_in(waits_for_checkpoint(synchronizes)) == []


def one_large(synchronizes: bool, early_ns: int = 0) -> Scene:
    """A trace of one step, with a single large kernel; the host returns from its wait for it `early_ns` too early."""
    scene, host, stream = device_scene()
    with host.step(1):
        many_small(host, stream)
        with host.op("aten::mm"):
            large = host.launch(stream, "gemm", 100 * MS)
        if synchronizes:
            host.synchronize(stream)
        host.until(large.end - early_ns)
        if early_ns:
            scene.of("cudaStreamSynchronize")[-1].dur -= early_ns
    with host.op("aten::add"):
        host.spend(large.end + MS - host.now)
    return scene


@pytest.mark.parametrize(
    ("synchronizes", "early_ns", "expected"),
    [(True, 0, []), (False, 0, ["event-dominates"]), (True, 50 * MS, ["event-dominates"])],
)
def test_an_event_whose_end_nothing_confirms_is_doubted(
    synchronizes: bool, early_ns: int, expected: list[str]
) -> None:
    """A single large kernel is sound where the host waits for it."""
    assert [doubt for _, doubt in found_in(one_large(synchronizes, early_ns))] == expected


@pytest.mark.parametrize(
    ("lag_ns", "expected"), [(1_000, []), (40_000, [("ProfilerStep#1", "event-dominates")])]
)
def test_work_that_lay_in_the_queue_and_starts_at_its_end_confirms_it(
    lag_ns: int, expected: list[tuple[str, str]]
) -> None:
    scene, host, stream = device_scene()
    with host.step(1):
        many_small(host, stream)
        large = host.launch(stream, "gemm", 100 * MS)
        host.launch(stream, "small", 2_000, at=large.end + lag_ns)
    with host.op("aten::add"):
        host.spend(large.end + MS - host.now)
    assert found_in(scene) == expected


def test_a_step_whose_calls_were_lost_still_has_its_device_events() -> None:
    scene, host, stream = device_scene()
    for number in range(1, 6):
        with host.step(number):
            for _ in range(30):
                with host.op("aten::mm"):
                    if number == 3:
                        host.spend(5_000)
                        stream.run("gemm", 10_000, ready=host.now)
                    else:
                        host.launch(stream, "gemm", 10_000)
            host.synchronize()
    assert found_in(scene) == []


@pytest.mark.parametrize(("context", "expected"), [(2, []), (1, ["stream-overlaps"])])
def test_streams_of_two_contexts_may_have_the_same_number(context: int, expected: list[str]) -> None:
    scene, host, stream = device_scene()
    with host.step(1), host.op("aten::mm"):
        first = host.launch(stream, "gemm", 100_000)
        call = host.call("cudaLaunchKernel")
        stream.run("other", 100_000, call=call, at=first.ts + 50_000, args={"context": context})
    assert [doubt for _, doubt in found_in(scene)] == expected


@pytest.mark.parametrize(("kernel_ns", "expected"), [(10_000, []), (1_000, ["launch-without-work"])])
def test_the_last_launches_may_still_be_queued_when_the_profiler_stops(
    kernel_ns: int, expected: list[str]
) -> None:
    """Without steps. With short kernels the queue was empty when the last calls were made: their work was lost."""
    scene, host, stream = device_scene()
    for _ in range(200):
        with host.op("aten::mm"):
            host.launch(stream, "gemm", kernel_ns)
    for _ in range(20):
        with host.op("aten::mm"):
            host.call("cudaLaunchKernel")
    assert [doubt for _, doubt in found_in(scene)] == expected


def test_launches_of_a_step_count_even_if_they_were_queued() -> None:
    scene, host, stream = device_scene()
    with host.step(1):
        for _ in range(30):
            host.launch(stream, "gemm", 10_000)
        host.call("cudaLaunchKernel")
    assert found_in(scene) == [("ProfilerStep#1", "launch-without-work")]


@pytest.mark.parametrize(
    ("span_ns", "expected"), [(10 * MS, []), (1 * MS, [("ProfilerStep#1", "outlasts-trace")])]
)
def test_a_step_that_goes_on_when_the_profiler_has_stopped_is_doubted(
    span_ns: int, expected: list[tuple[str, str]]
) -> None:
    scene, host, stream = device_scene()
    with host.step(1):
        many_small(host, stream)
        host.spend(10 * MS)
    span = {"ph": "X", "name": "PyTorch Profiler (0)", "cat": "Trace", "ts": 0, "dur": span_ns / 1000}
    scene.raw({**span, "pid": "Spans", "tid": "PyTorch Profiler"})
    assert found_in(scene) == expected


DEVICES = pytest.mark.parametrize("device", [V100, A100, H100, MI300X], ids=lambda device: device["name"])


def figures(scene: Scene) -> list[tuple[str | None, str, int, int | None]]:
    return validity(scene.linked()).select("step", "doubt", "count", "time_ns").rows()


def on(device: Json, scene: Scene) -> Scene:
    scene.devices = [device]
    return scene


@pytest.mark.slow
@DEVICES
@pytest.mark.parametrize("world_size", [1, 4])
def test_clean_training_gives_no_doubt(device: Json, world_size: int) -> None:
    assert figures(on(device, clean(5, world_size=world_size))) == []


@DEVICES
def test_work_that_outlasts_later_work_of_its_stream_is_found(device: Json) -> None:
    """Of the last step, so that no other runs meanwhile."""
    scene = on(device, clean(4))
    [step] = scene.of("ProfilerStep#4")
    inside = [kernel for kernel in scene.of("gemm") if kernel.call is not None and kernel.call.ts > step.ts]
    inside[0].dur = 3 * KERNEL_NS
    assert figures(scene) == [("ProfilerStep#4", "stream-overlaps", 1, 3 * KERNEL_NS)]


@pytest.mark.parametrize(("device", "found"), [(A100, True), (H100, False)])
def test_a_start_before_the_predecessor_ends_is_possible_from_compute_capability_9(
    device: Json, found: bool
) -> None:
    scene = on(device, clean(2))
    scene.of("gemm")[1].ts -= KERNEL_NS // 4
    scene.of("gemm")[1].dur += KERNEL_NS // 4
    assert bool(figures(scene)) == found


def test_a_graph_replayed_in_each_step_gives_no_doubt() -> None:
    scene, host, stream = device_scene()
    for number in range(4):
        with host.step(number):
            host.replay(stream, [("gemm", 10_000), ("relu", 3_000)] * 10)
            host.synchronize(stream)
    assert figures(scene) == []
    lost = [event for event in scene.of_category("kernel") if event.ts > scene.of("ProfilerStep#2")[0].ts]
    for event in lost:
        scene.events.remove(event)
    assert [row[:2] for row in figures(scene)] == [
        ("ProfilerStep#2", "device-events-missing"),
        ("ProfilerStep#3", "device-events-missing"),
    ]
