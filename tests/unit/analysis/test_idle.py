"""Gaps before work that was launched in time or whose launch is not known, gaps of streams, and damaged traces."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, kernel, op
from tests.growth import grows_less
from tests.planted import CALL_NS, LATENCY_NS, Scene, device_scene
from tests.planted.damaged import TRACES
from tests.planted.devices import A100
from tests.planted.idle import KERNEL_NS, begun, causes
from tests.planted.scenes import clean
from tests.property.test_time import assert_adds_up
from tests.unit.linking.made import linked_of
from tracebraid.analyses import idle_blame, idle_causes, idle_gaps, stream_idle
from tracebraid.model.linked_trace import LinkedTrace


def test_a_gap_between_queued_kernels() -> None:
    scene, host, stream = begun()
    host.launch(stream, "behind", KERNEL_NS, at=18_000 + 1_500)
    assert causes(scene.linked()) == {("queued", None): 1_500}


def test_a_call_that_is_open_when_the_device_runs_dry_is_latency() -> None:
    scene, host, stream = begun()
    host.spend(11_000)
    host.launch(stream, "behind", KERNEL_NS)
    assert causes(scene.linked()) == {("launch-latency", None): 16_000 + CALL_NS + LATENCY_NS - 18_000}


@pytest.mark.parametrize("recorded", [True, False])
def test_work_that_waits_for_another_stream(recorded: bool) -> None:
    scene, host, stream = begun()
    other = scene.stream(8)
    host.wait_event(other, host.record(stream, 1_000), recorded, 1_000)
    host.launch(other, "behind", KERNEL_NS, at=18_000 + 4_000)
    assert causes(scene.linked()) == {("stream-wait", None): 4_000}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_wait_that_was_over_before_the_gap_is_not_its_cause(recorded: bool) -> None:
    scene, host, stream = begun()
    other = scene.stream(8)
    host.launch(other, "longer", 50_000, call_ns=1_000)
    host.wait_event(other, host.record(stream, 1_000), recorded, 1_000)
    host.launch(other, "behind", KERNEL_NS, at=other.free + 4_000)
    assert causes(scene.linked()) == {("queued", None): 4_000}


def test_a_wait_keeps_launched_work_for_as_long_as_it_takes() -> None:
    """The wait was over long after the launch: by what, the trace does not show."""
    scene, host, stream = begun()
    other = scene.stream(8)
    host.spend(30_000)
    host.wait_event(other, host.record(stream), recorded=False)
    kernel = host.launch(other, "behind", KERNEL_NS, latency=700_000)
    assert kernel.call is not None
    assert causes(scene.linked()) == {
        ("host-late", "outside-of-ops"): 35_000 - 18_000,
        ("host-late", "called"): 2 * CALL_NS,
        ("stream-wait", None): kernel.ts - kernel.call.ts,
    }


def test_the_device_itself_says_how_long_it_waited() -> None:
    """MTIA has rows for it, and others for events that it records."""
    scene, host, stream = begun()
    stream.run("event_wait", 30_000, 20_000, "mtia_ccp_events")
    stream.run("event_record", 500, 51_000, "mtia_ccp_events")
    host.launch(stream, "behind", KERNEL_NS, at=52_000)
    assert causes(scene.linked()) == {("stream-wait", None): 52_000 - 18_000}


@pytest.mark.parametrize("at", [None, 18_000 + 703_000])
def test_launched_work_that_starts_much_later_is_blocked(at: int | None) -> None:
    scene, host, stream = begun()
    if at is None:
        host.spend(20_000)
    kernel = host.launch(stream, "behind", KERNEL_NS, latency=700_000, at=at)
    assert kernel.call is not None
    assert causes(scene.linked())["blocked", None] == kernel.ts - max(18_000, kernel.call.ts)


def test_a_graph_is_launched_and_its_kernels_are_queued() -> None:
    scene, host, stream = begun()
    host.spend(20_000)
    with host.op("replay"):
        host.replay(stream, [("a", 5_000), ("b", 5_000), ("c", 5_000)], gap=700, call_ns=150_000)
    linked = scene.linked()
    assert causes(linked) == {
        ("host-late", "outside-of-ops"): 25_000 - 18_000,
        ("graph-launch", None): 150_000 + LATENCY_NS,
        ("queued", None): 2 * 700,
    }
    row = idle_gaps(linked).row(1, named=True)
    assert (row["op"], row["next_op"], row["next_call"], row["next_name"]) == (
        "replay",
        "replay",
        "cudaGraphLaunch",
        "a",
    )


def test_a_graph_on_two_devices_is_launched_late_on_both() -> None:
    scene = Scene(devices=(A100, A100))
    host, first, second = scene.thread(), scene.stream(7), scene.stream(7, 1)
    for stream in (first, second):
        host.launch(stream, "before", KERNEL_NS)
    host.spend(60_000)
    call = host.call("cudaGraphLaunch")
    first.run("a", 5_000, call.end + 3_000, call=call)
    second.run("b", 5_000, call.end + 6_000, call=call)
    parts = idle_causes(scene.linked()).sort("device", "cause", descending=[False, True])
    assert parts.select("device", "cause", "idle_ns").rows() == [
        ("0", "host-late", call.ts - 18_000),
        ("0", "graph-launch", CALL_NS + 3_000),
        ("1", "host-late", call.ts - 23_000),
        ("1", "graph-launch", CALL_NS + 6_000),
    ]


def test_work_without_a_launch_in_the_trace_is_unknown() -> None:
    scene, host, stream = begun()
    host.run("aten::meanwhile", 100_000)
    stream.run("behind", KERNEL_NS, 60_000)
    assert causes(scene.linked()) == {("unknown", "computed"): 60_000 - 18_000}


def test_work_that_was_launched_before_the_trace_was_queued() -> None:
    scene, host, stream = device_scene()
    host.call("cudaGetDevice", 1_000)
    stream.run("first", 5_000, 2_000)
    stream.run("second", 5_000, 9_000)
    host.launch(stream, "third", 5_000, at=14_000)
    assert causes(scene.linked()) == {("queued", None): 2_000}


def test_behind_the_last_work_of_a_step_there_is_no_more() -> None:
    scene, host, stream = device_scene()
    with host.step(1):
        with host.op("aten::mm", 2_000):
            host.launch(stream, "only", KERNEL_NS)
        host.until(20_000)
        host.run("aten::rest", 30_000)
    linked = scene.linked()
    assert causes(linked) == {}
    assert causes(linked, per_step=True) == {
        ("host-late", "computed"): 2_000,
        ("launch-latency", None): CALL_NS + LATENCY_NS,
        ("no-more-work", "computed"): 30_000,
    }


def test_a_gap_over_the_end_of_a_step_counts_for_both() -> None:
    scene, host, stream = device_scene()
    with host.step(1):
        host.launch(stream, "before", KERNEL_NS)
        host.until(40_000)
    with host.step(2), host.op("aten::mm", 10_000):
        host.launch(stream, "behind", KERNEL_NS)
    gaps = idle_gaps(scene.linked(), per_step=True)
    rows = gaps.filter(cause="host-late").select("step", "start_ns", "dur_ns", "gap_ns", "op").rows()
    assert rows == [
        ("ProfilerStep#1", 18_000, 22_000, 40_000, None),
        ("ProfilerStep#2", 40_000, 10_000, 40_000, "aten::mm"),
    ]


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_clean_scene_is_never_idle(world_size: int) -> None:
    linked = clean(world_size=world_size).linked()
    assert causes(linked) == {}
    assert idle_gaps(linked).is_empty()
    assert idle_blame(linked).is_empty()


def gaps(linked: LinkedTrace) -> list[tuple[str, str, int, int]]:
    return stream_idle(linked).select("stream", "category", "idle_ns", "count").rows()


def test_a_gap_is_by_host_by_kernel_or_other() -> None:
    scene, host, stream = begun()
    host.launch(stream, "queued", KERNEL_NS, at=18_000 + 2_000)
    host.launch(stream, "held", KERNEL_NS, at=30_000 + 40_000)
    host.until(100_000)
    host.launch(stream, "late", KERNEL_NS)
    linked = scene.linked()
    assert gaps(linked) == [
        ("7", "host_wait", 28_000, 1),
        ("7", "kernel_wait", 2_000, 1),
        ("7", "other", 40_000, 1),
    ]
    shares = stream_idle(linked).get_column("share").to_list()
    assert shares == pytest.approx([28 / 70, 2 / 70, 40 / 70])


def test_the_spread_of_gaps() -> None:
    scene, host, stream = begun()
    for gap in (1_000, 2_000, 3_000, 10_000):
        host.launch(stream, "next", KERNEL_NS, at=stream.free + gap, call_ns=1)
    row = stream_idle(scene.linked()).to_dicts()[0]
    assert (row["count"], row["min_ns"], row["max_ns"], row["mean_ns"]) == (4, 1_000, 10_000, 4_000.0)
    assert (row["p25_ns"], row["p50_ns"], row["p75_ns"]) == (1_750.0, 2_500.0, 4_750.0)
    assert round(row["std_ns"]) == 4_082


def test_a_stream_is_idle_while_another_works_and_the_device_is_not() -> None:
    scene, host, stream = begun()
    host.launch(scene.stream(8), "long", 500_000)
    host.until(100_000)
    host.launch(stream, "late", KERNEL_NS)
    linked = scene.linked()
    assert gaps(linked) == [("7", "host_wait", 90_000, 1)]
    assert idle_causes(linked).is_empty()


def test_work_that_overlaps_on_a_stream_waits_for_nothing() -> None:
    scene, host, stream = begun()
    host.launch(stream, "overlapping", KERNEL_NS, at=15_000)
    (row,) = stream_idle(scene.linked()).to_dicts()
    assert (row["category"], row["idle_ns"], row["count"], row["share"]) == ("kernel_wait", 0, 1, None)


def test_synchronizations_are_no_work_of_a_stream() -> None:
    """HTA counts the rows of `cuda_sync` as kernels: to it the gap is one of 1 ns and one of 82 µs."""
    scene, host, stream = begun()
    host.synchronize(stream)
    host.until(100_000)
    host.launch(stream, "late", KERNEL_NS)
    assert gaps(scene.linked()) == [("7", "host_wait", 90_000, 1)]


def test_gaps_by_step_belong_to_the_step_of_the_next_launch() -> None:
    scene, host, stream = device_scene()
    for number in (1, 2):
        with host.step(number):
            host.launch(stream, "a", KERNEL_NS)
            host.until(number * 50_000)
    rows = stream_idle(scene.linked(), per_step=True).select("step", "idle_ns").rows()
    assert rows == [("ProfilerStep#2", 40_000)]


def test_streams_are_in_the_order_of_their_numbers() -> None:
    events: list[Json] = [op("aten::mm", 0, 100)]
    for number, stream in enumerate((10, 9)):
        for start in (0, 20):
            correlation = 2 * number + start
            events.append(call("cudaLaunchKernel", start, 1, 1 + correlation))
            events.append(kernel("k", start + 2, 5, 1 + correlation, stream=stream))
    assert [row[0] for row in gaps(linked_of(events))] == ["9", "10"]
    assert stream_idle(linked_of([])).is_empty()


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_the_sums_hold_of_damaged_traces(name: str) -> None:
    linked = linked_of(TRACES[name])
    assert_adds_up(linked)
    for per_step in (False, True):
        assert stream_idle(linked, per_step).get_column("idle_ns").sum() >= 0


def test_work_before_its_launch_and_a_call_that_never_ends_count_up_to_the_work() -> None:
    found = causes(linked_of(TRACES["work before its launch"]))
    assert found == {("host-late", "outside-of-ops"): 17_000}
    found = causes(linked_of(TRACES["a launch that never ends"]))
    assert found == {("host-late", "outside-of-ops"): 7_000, ("host-late", "launched"): 10_000}


def test_an_event_that_ends_inside_of_the_next_does_not_end_that() -> None:
    """On one thread `a` runs from 0 to 20 µs, and `b` from 10 to 40: from 20 on the thread is in `b`."""
    events = [
        op("a", 0, 20),
        op("b", 10, 30),
        call("cudaLaunchKernel", 40, 5, 2),
        kernel("before", 15, 5, 9),
        kernel("behind", 50, 5, 2),
    ]
    assert idle_blame(linked_of(events)).select("op", "idle_ns").rows() == [("b", 20_000)]


KERNELS = 1_500


def late_kernels(count: int) -> LinkedTrace:
    """A trace in which each kernel is late, and the host is in several ops meanwhile."""
    scene, host, stream = device_scene(flows=False)
    with host.step(1):
        for _ in range(count):
            with host.op("aten::linear", 20_000), host.op("aten::addmm", 20_000):
                host.launch(stream, "gemm", 1_000)
    linked = scene.linked()
    return linked.compute_all()


def ask_all(linked: LinkedTrace) -> None:
    """Every question about idle time, with nothing kept from an earlier round."""
    linked = LinkedTrace(linked.timeline, linked.stages)
    for ask in (idle_causes, idle_blame, idle_gaps):
        ask(linked, per_step=True)


@pytest.mark.full
@pytest.mark.slow
def test_eight_times_the_kernels_cost_about_eight_times_as_much() -> None:
    assert grows_less(16, ask_all, late_kernels(KERNELS), late_kernels(8 * KERNELS))
