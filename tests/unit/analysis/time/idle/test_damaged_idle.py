"""Traces that are not as they should be: the sums hold, and nothing is raised."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.property.test_idle import assert_adds_up
from tests.unit.analysis.time.idle.planted_idle import causes
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.stream_idle import stream_idle

STEP = "user_annotation"

DAMAGED: dict[str, list[Json]] = {
    "nothing": [],
    "a kernel": [kernel("k", 5, 2, 1)],
    "a kernel without length": [kernel("k", 5, 0, 1)],
    "kernels without length": [kernel("k", ts, 0, ts) for ts in (5, 9, 9, 12)],
    "an op": [op("aten::mm", 5, 2)],
    "a step alone": [op("ProfilerStep#1", 0, 50, cat=STEP)],
    "a step without length": [
        op("ProfilerStep#1", 10, 0, cat=STEP),
        kernel("a", 0, 5, 1),
        kernel("b", 20, 5, 2),
    ],
    "steps that overlap": [
        op("ProfilerStep#1", 0, 50, cat=STEP),
        op("ProfilerStep#2", 20, 60, cat=STEP, tid=2),
        op("ProfilerStep#2", 25, 10, cat=STEP, tid=3),
        *(kernel("k", ts, 3, ts) for ts in (10, 30, 70)),
    ],
    "steps far from the device": [
        op("ProfilerStep#1", 0, 5, cat=STEP),
        op("ProfilerStep#2", 1000, 5, cat=STEP),
        *(kernel("k", ts, 3, ts) for ts in (400, 500)),
    ],
    "work before its launch": [
        kernel("a", 0, 3, 1),
        call("cudaLaunchKernel", 50, 5, 2),
        kernel("b", 20, 3, 2),
    ],
    "a launch that never ends": [
        kernel("a", 0, 3, 1),
        call("cudaLaunchKernel", 10, 500, 2),
        kernel("b", 20, 3, 2),
    ],
    "one correlation for all": [
        call("cudaLaunchKernel", 0, 5, 1),
        *(kernel("k", ts, 1, 1) for ts in (9, 90, 95)),
    ],
    "no correlation": [
        complete("k", "kernel", ts, 3, 0, 7, {"device": 0, "stream": 7, "correlation": None}) for ts in (1, 9)
    ],
    "no arguments": [complete("k", "kernel", ts, 3, 0, 7) for ts in (1, 9)],
    "a device and stream by name": [complete("k", "kernel", ts, 3, "GPU", "queue", {}) for ts in (1, 9)],
    "events that outlast their parents": [
        op("a", 0, 20),
        op("b", 10, 30),
        op("c", 15, 40),
        call("cudaLaunchKernel", 18, 90, 1),
        kernel("before", 2, 3, 9),
        kernel("k", 120, 5, 1),
    ],
    "waits for nobody": [
        complete(
            "Stream Wait Event", "cuda_sync", 5, 1, 0, 7, {"cuda_sync_kind": "Stream Wait Event", "stream": 7}
        ),
        complete(
            "Stream Wait Event",
            "cuda_sync",
            6,
            1,
            0,
            7,
            {
                "cuda_sync_kind": "Stream Wait Event",
                "stream": 7,
                "wait_on_stream": -1,
                "wait_on_cuda_event_record_corr_id": -1,
                "correlation": 3,
                "device": 0,
            },
        ),
        *(kernel("k", ts, 3, ts) for ts in (1, 9)),
    ],
    "only waits": [complete("event_wait", "mtia_ccp_events", 5, 1, 0, 7, {})],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_the_sums_hold_of_damaged_traces(name: str) -> None:
    linked = linked_of(DAMAGED[name])
    assert_adds_up(linked)
    for per_step in (False, True):
        assert stream_idle(linked, per_step).get_column("idle_ns").sum() >= 0


def test_work_before_its_launch_waited_for_a_host_that_had_not_launched() -> None:
    assert causes(linked_of(DAMAGED["work before its launch"])) == {("host-late", "outside-of-ops"): 17_000}


def test_a_call_of_the_length_of_the_trace_counts_up_to_the_work() -> None:
    found = causes(linked_of(DAMAGED["a launch that never ends"]))
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
