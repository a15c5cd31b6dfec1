"""Gaps before work that was launched in time, or whose launch is not known."""

from __future__ import annotations

import pytest

from tests.planted import CALL_NS, LATENCY_NS, Scene
from tests.planted.devices import A100
from tests.planted.scenes import clean
from tests.unit.analysis.time.idle.planted_idle import KERNEL_NS, begun, causes
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.idle_causes import idle_causes
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps


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
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.call("cudaGetDevice", 1_000)
    stream.run("first", 5_000, 2_000)
    stream.run("second", 5_000, 9_000)
    host.launch(stream, "third", 5_000, at=14_000)
    assert causes(scene.linked()) == {("queued", None): 2_000}


def test_behind_the_last_work_of_a_step_there_is_no_more() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
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
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
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


def test_a_trace_with_nothing_in_it_has_no_idle_time() -> None:
    linked = Scene().linked()
    for per_step in (False, True):
        assert idle_causes(linked, per_step).is_empty()
        assert idle_gaps(linked, per_step).is_empty()
        assert idle_blame(linked, per_step).is_empty()
