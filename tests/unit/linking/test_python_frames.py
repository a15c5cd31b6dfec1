"""Python frames that Kineto ends late: what they do not change, and what is said of them."""

from __future__ import annotations

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import event_ids, linked_of
from tracebraid.linking.python_frames import proven_ends
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace

NEXT = "<built-in function next>"
GRAPH = "## Call CompiledFxGraph f00d ##"
KERNELS = 20


def frame(name: str, ts: float, dur: float, number: int, caller: int | None) -> Json:
    ids = {"Python id": number, "Python parent id": caller}
    return {**op(name, ts, dur, cat="python_function"), "args": ids}


def late_findings(linked: LinkedTrace) -> list[Finding]:
    return [one for one in linked.all_findings if one.code == "frame-end-late"]


def compiled_call(next_dur: float, caller_of_next: int | None = 2) -> list[Json]:
    """A compiled region of 1 ms, in whose beginning `next` is called; then it launches kernels."""
    events = [
        op("ProfilerStep#3", 0, 2000, cat="user_annotation"),
        frame("train.py(3): train", 1, 80_000, 1, None),
        op("Torch-Compiled Region: 0/0", 5, 1500, cat="user_annotation"),
        frame("compiled.py(9): call", 10, 1200, 2, 1),
        op(GRAPH, 20, 1000, cat="user_annotation"),
        frame(NEXT, 30, next_dur, 3, caller_of_next),
    ]
    for number in range(KERNELS):
        events.append(call("cuLaunchKernel", 50 + 10 * number, 5, 100 + number))
        events.append(kernel(f"triton_{number}", 60 + 10 * number, 8, 100 + number))
    return [*events, frame("compiled.py(20): check", 300, 10, 4, 2), op("aten::mul", 400, 10)]


def test_launches_stay_in_the_annotation_around_a_frame_that_ends_late() -> None:
    linked = linked_of(compiled_call(72_000))
    graph = event_ids(linked)[GRAPH]
    assert linked.device_links.get_column("op_event").to_list() == [graph] * KERNELS
    assert linked.coverage.gpu_events.share == 1.0


def test_a_frame_that_ends_late_is_counted_and_located() -> None:
    (found,) = late_findings(linked_of(compiled_call(72_000)))
    assert found.count == 1
    assert NEXT in found.where


def test_a_frame_is_cut_where_its_caller_calls_another_function() -> None:
    linked = linked_of(compiled_call(72_000))
    start = linked.timeline.events.filter(event_id=event_ids(linked)[NEXT]).item(0, "ts_ns")
    assert proven_ends(linked.timeline).rows() == [(event_ids(linked)[NEXT], start + 270_000)]


def test_a_built_in_function_that_outlasts_annotations_by_long_is_late_without_its_caller_too() -> None:
    assert [one.count for one in late_findings(linked_of(compiled_call(72_000, None)))] == [1]


def test_frames_that_end_in_time_are_no_finding() -> None:
    assert late_findings(linked_of(compiled_call(3))) == []


def test_frames_that_close_an_annotation_are_no_finding() -> None:
    """As a profiler's own step does: it closes one step and opens the next."""
    events = [
        frame("train.py(3): train", 0, 9000, 1, None),
        frame("profiler.py(1): step", 900, 5000, 2, 1),
        op("ProfilerStep#1", 10, 990, cat="user_annotation"),
        frame("profiler.py(2): __exit__", 990, 20, 3, 2),
        frame("<built-in method exit>", 995, 10, 4, 3),
        op("ProfilerStep#2", 1100, 3000, cat="user_annotation"),
    ]
    assert late_findings(linked_of(events)) == []


def test_a_built_in_function_that_closes_an_annotation_inside_of_a_call_is_no_finding() -> None:
    """`next` on a generator that leaves a range and works on for long."""
    events = [
        op("range", 0, 100, cat="user_annotation"),
        frame(NEXT, 50, 9000, 1, None),
        frame("work.py(2): generate", 51, 8990, 2, 1),
    ]
    assert late_findings(linked_of(events)) == []


def test_a_frame_that_outlasts_an_operator_is_late() -> None:
    found = late_findings(linked_of([op("aten::mm", 0, 100), frame("f.py(1): f", 50, 90, 1, None)]))
    assert [one.count for one in found] == [1]
