"""Device events that a step lacks."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.analysis.validity.training import (
    KERNELS,
    STEP_US,
    doubts,
    is_call,
    is_device,
    number_of,
    steps,
    without,
)

MISSING, NO_WORK = "device-events-missing", "launch-without-work"


@pytest.mark.parametrize(
    "launch",
    ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx", "hipExtModuleLaunchKernel"],
)
def test_a_sound_trace_gives_no_doubt(launch: str) -> None:
    assert doubts(steps(4, launch)) == []


def test_a_step_whose_launches_have_no_work_lacks_device_events() -> None:
    events = without(steps(4), lambda e: is_device(e) and number_of(e) == 2)
    assert doubts(events) == [("2", MISSING, KERNELS)]


def test_a_step_that_lost_calls_and_work_is_found_by_its_ops() -> None:
    events = without(steps(4), lambda e: (is_device(e) or is_call(e)) and number_of(e) == 2)
    assert doubts(events) == [("2", MISSING, KERNELS)]


def test_most_steps_may_have_lost_their_device_events() -> None:
    """AMD-AGI/TraceLens#972: 30 of 32 steps had none."""
    for lost in (is_device, lambda e: is_device(e) or is_call(e)):
        events = without(steps(32), lambda e, lost=lost: lost(e) and number_of(e) >= 2)  # type: ignore[misc]
        assert doubts(events) == [(str(number), MISSING, KERNELS) for number in range(2, 32)]


def test_a_stretch_cut_off_within_a_step_is_found_with_and_without_its_calls() -> None:
    half = 1.45 * STEP_US
    events = without(steps(4), lambda e: is_device(e) and half <= e["ts"] < 2 * STEP_US)
    [(step, doubt, count)] = doubts(events)
    assert (step, doubt) == ("1", MISSING)
    assert count == KERNELS / 2
    events = without(steps(4), lambda e: (is_device(e) or is_call(e)) and half <= e["ts"] < 2 * STEP_US)
    assert [(step, doubt) for step, doubt, _ in doubts(events)] == [("1", MISSING)]


def test_a_few_launches_without_work_are_a_doubt_of_their_own() -> None:
    events = without(steps(4), lambda e: is_device(e) and e["args"]["correlation"] in (105, 107))
    assert doubts(events) == [("1", NO_WORK, 2)]


def test_a_launch_in_no_step_is_a_doubt_about_no_step() -> None:
    late = call("cudaLaunchKernel", 9000, 5, 9999)
    assert doubts([*steps(2), late]) == [(None, MISSING, 1)]
    # Of many launches, one that had not run yet when the profiler stopped hardly changes any figure.
    assert doubts([*steps(6), late]) == []


def test_a_trace_without_any_device_event_lacks_them_where_something_was_launched() -> None:
    assert doubts(without(steps(1), is_device)) == [("0", MISSING, KERNELS)]
    assert doubts(without(steps(3), lambda e: is_device(e) or is_call(e))) == []


def test_a_trace_with_nothing_in_it_gives_no_doubt() -> None:
    assert doubts([]) == []
    assert doubts([op("a", 0, 1)]) == []
    assert doubts([{**kernel("k", 0, 0, 1), "args": {}}]) == []


@pytest.mark.parametrize("name", ["cudaMemsetAsync", "cudaStreamSynchronize", "cudaLaunchHostFunc"])
def test_calls_that_need_no_work_give_no_doubt(name: str) -> None:
    """A fill of no bytes has no work."""
    assert doubts([*steps(3), *(call(name, 1005 + 45 * i, 2, 5000 + i) for i in range(5))]) == []


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


def test_an_api_that_works_in_the_other_steps_should_in_this() -> None:
    rest = [event for number in (0, 2, 3) for event in copies(number, working=10)]
    assert doubts([*steps(4), *rest, *copies(1, working=10)]) == []
    assert doubts([*steps(4), *rest, *copies(1, working=9)]) == []
    assert doubts([*steps(4), *rest, *copies(1, working=1)]) == [("1", NO_WORK, 9)]


def test_launches_that_are_recorded_into_a_graph_have_no_work() -> None:
    recorded = [call("cudaLaunchKernel", 5000 + 10 * i, 5, 7000 + i) for i in range(5)]
    begin = call("cudaStreamBeginCapture", 4990, 2, 6990)
    end = call("cudaStreamEndCapture_v2", 5100, 2, 6991)
    assert doubts([*steps(2), begin, *recorded, end]) == []
    assert doubts([*steps(2), *recorded, end]) == []
    instantiate = call("hipGraphInstantiate", 5100, 2, 6991)
    assert doubts([*steps(2), *recorded, instantiate]) == []
    late = call("cudaLaunchKernel", 5200, 5, 7100)
    assert doubts([*steps(2), begin, *recorded, end, late]) == [(None, MISSING, 1)]


def test_a_launch_inside_the_call_that_has_its_work_is_explained() -> None:
    events = steps(2)
    nested = [call("cuLaunchKernel", e["ts"] + 1, 2, 8000 + i) for i, e in enumerate(events) if is_call(e)]
    around = [call("hipLaunchKernel", e["ts"] - 0.5, 7, 9000 + i) for i, e in enumerate(events) if is_call(e)]
    assert doubts([*events, *nested]) == []
    assert doubts([*events, *around]) == []


def test_a_step_with_fewer_ops_may_have_fewer_kernels() -> None:
    events = without(
        steps(5), lambda e: number_of(e) == 4 and e["ts"] > 4300 and not e["name"].startswith("P")
    )
    assert doubts(events) == []


def test_more_kernels_in_a_first_step_are_no_doubt_about_the_rest() -> None:
    """cudnn.benchmark launches many kernels under one op."""
    more = [op("aten::conv2d", 960, 20)]
    for i in range(60):
        more += [call("cudaLaunchKernel", 961 + i / 10, 0.05, 600_000 + i)]
        more += [{**steps(1)[3], "ts": 970 + i / 10, "dur": 0.05, "args": {"correlation": 600_000 + i}}]
    others = [op("aten::conv2d", 1000 * i + 960, 20) for i in range(1, 4)]
    assert doubts([*steps(4), *more, *others]) == []
