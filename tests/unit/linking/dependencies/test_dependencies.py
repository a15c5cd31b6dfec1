"""What waits for what: each kind with what proves it, and with what looks alike and proves nothing."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders import Json, call, complete, kernel, node, op
from tests.unit.linking.made import et_of, linked_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import DEPENDENCIES


def sync(kind: str, ts: float, dur: float, correlation: int, **args: Any) -> Json:
    """A `cuda_sync` event of device 0."""
    fixed = {"cuda_sync_kind": kind, "device": 0, "correlation": correlation}
    return complete(kind, "cuda_sync", ts, dur, pid=0, tid=-1, args={**fixed, **args})


def found(events: list[Json], kind: str) -> list[tuple[str, str, str, str]]:
    """(event, its moment, event that waits, its moment) by name, of one kind."""
    return edges_of(linked_of(events), kind)


def edges_of(linked: LinkedTrace, kind: str) -> list[tuple[str, str, str, str]]:
    names = linked.timeline.events.get_column("name").cast(pl.String)
    rows = linked.dependencies.filter(pl.col("kind").cast(pl.String) == kind)
    columns = ("before_event", "before_moment", "after_event", "after_moment")
    return [(names[a], m, names[b], k) for a, m, b, k in rows.select(columns).iter_rows()]


def evidence_of(events: list[Json], kind: str) -> list[str]:
    rows = linked_of(events).dependencies.filter(pl.col("kind").cast(pl.String) == kind)
    return rows.get_column("evidence").to_list()


def test_work_starts_after_the_call_that_launched_it() -> None:
    events = [op("mm", 0, 50), call("cudaLaunchKernel", 10, 5, 7), kernel("gemm", 30, 9, 7)]
    linked = linked_of(events)
    assert edges_of(linked, "launch") == [("cudaLaunchKernel", "start", "gemm", "start")]
    row = linked.dependencies.row(0, named=True)
    assert (row["evidence"], row["slack_ns"]) == ("correlation 7", 20_000)
    assert linked.dependencies.schema == pl.Schema(DEPENDENCIES.polars_schema())


def test_a_launch_that_time_contradicts_is_left_out_and_said() -> None:
    linked = linked_of([call("cudaLaunchKernel", 100, 5, 7), kernel("gemm", 30, 9, 7)])
    assert edges_of(linked, "launch") == []
    assert [(one.code, one.count) for one in linked.findings] == [("dependency-backward", 1)]


def test_a_trace_without_events_has_no_dependencies() -> None:
    assert linked_of([]).dependencies.is_empty()


STREAM = [
    kernel("a", 0, 10, 1),
    kernel("b", 10, 5, 2),
    kernel("other", 11, 2, 3, stream=8),
    kernel("c", 40, 5, 4),
]


def test_work_of_a_stream_follows_the_work_before_it() -> None:
    assert found(STREAM, "stream_order") == [("a", "end", "b", "start"), ("b", "end", "c", "start")]
    assert evidence_of(STREAM, "stream_order") == ["stream 7", "stream 7"]


def test_rounding_does_not_hide_an_order() -> None:
    """In µs the first seems to end 1 µs into the second."""
    assert found([kernel("a", 0, 11, 1), kernel("b", 10, 5, 2)], "stream_order") == [
        ("a", "end", "b", "start")
    ]


def test_work_that_overlaps_on_a_stream_has_no_order_but_with_what_ended_before() -> None:
    events = [kernel("first", 0, 5, 1), kernel("a", 10, 20, 2), kernel("b", 15, 20, 3), kernel("c", 50, 1, 4)]
    assert found(events, "stream_order") == [
        ("first", "end", "a", "start"),
        ("first", "end", "b", "start"),
        ("b", "end", "c", "start"),
    ]


def test_work_that_starts_together_keeps_the_order_of_the_file() -> None:
    events = [kernel("a", 10, 0, 1), kernel("b", 10, 0, 2), kernel("c", 10, 3, 3)]
    assert found(events, "stream_order") == [("a", "end", "b", "start"), ("b", "end", "c", "start")]


WAIT = [
    call("cudaLaunchKernel", 0, 2, 1),
    call("cudaLaunchKernel", 3, 2, 2),
    call("cudaEventRecord", 6, 1, 3),
    call("cudaLaunchKernel", 8, 2, 4),
    call("cudaStreamWaitEvent", 12, 1, 5),
    call("cudaLaunchKernel", 14, 2, 6),
    call("cudaLaunchKernel", 17, 2, 7),
    kernel("early", 5, 5, 1),
    kernel("last", 20, 30, 2),
    kernel("after_record", 50, 5, 4),
    kernel("waiting", 52, 5, 6, stream=8),
    kernel("next", 60, 5, 7, stream=8),
]
WAITS = {"stream": 8, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 3, "wait_on_cuda_event_id": 1}


def test_work_behind_an_event_wait_follows_the_last_work_before_the_record() -> None:
    events = [*WAIT, sync("Stream Wait Event", 12, 1, 5, **WAITS)]
    assert found(events, "event_wait") == [("last", "end", "waiting", "start")]
    assert evidence_of(events, "event_wait") == ["cuda_sync Stream Wait Event 5: stream 8 waits for 7"]


@pytest.mark.parametrize(
    "other",
    [
        {"wait_on_stream": -1},
        {"wait_on_stream": 8},
        {"wait_on_stream": 9},
        {"wait_on_cuda_event_record_corr_id": -1},
        {"wait_on_cuda_event_record_corr_id": 99},
        {"stream": 9},
        {"device": 1},
    ],
    ids=str,
)
def test_a_wait_of_which_not_both_sides_are_known_proves_nothing(other: Json) -> None:
    assert found([*WAIT, sync("Stream Wait Event", 12, 1, 5, **{**WAITS, **other})], "event_wait") == []


def test_an_event_wait_that_time_contradicts_is_left_out_and_said() -> None:
    events = [*WAIT[:-2], kernel("waiting", 25, 5, 6, stream=8), sync("Stream Wait Event", 12, 1, 5, **WAITS)]
    linked = linked_of(events)
    assert edges_of(linked, "event_wait") == []
    assert "event_wait" in linked.findings[0].message


TWO_STREAMS = [
    call("cudaLaunchKernel", 0, 2, 1),
    call("cudaLaunchKernel", 3, 2, 2),
    kernel("on_7", 5, 50, 1),
    kernel("on_8", 6, 30, 2, stream=8),
]


def test_a_stream_sync_waits_for_its_stream_alone() -> None:
    events = [
        *TWO_STREAMS,
        call("cudaStreamSynchronize", 10, 47, 3),
        sync("Stream Sync", 10, 46, 3, stream=7),
    ]
    assert found(events, "sync") == [("on_7", "end", "cudaStreamSynchronize", "end")]
    assert evidence_of(events, "sync") == ["cuda_sync Stream Sync 3 of stream 7"]


def test_a_context_sync_waits_for_every_stream_of_its_device() -> None:
    other = {**kernel("elsewhere", 5, 10, 9), "pid": 1}
    other["args"] = {**other["args"], "device": 1}
    events = [
        *TWO_STREAMS,
        other,
        call("cudaDeviceSynchronize", 10, 47, 3),
        sync("Context Sync", 10, 46, 3, stream=-1),
    ]
    assert found(events, "sync") == [
        ("on_7", "end", "cudaDeviceSynchronize", "end"),
        ("on_8", "end", "cudaDeviceSynchronize", "end"),
    ]


EVENT_SYNC = {"stream": -1, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 3}


def test_an_event_sync_waits_for_what_was_issued_before_the_record() -> None:
    events = [*WAIT, call("cudaEventSynchronize", 18, 34, 8), sync("Event Sync", 18, 33, 8, **EVENT_SYNC)]
    assert found(events, "sync") == [("last", "end", "cudaEventSynchronize", "end")]


@pytest.mark.parametrize(("ts", "expected"), [(60, [("last", "end", "cudaEventQuery", "end")]), (20, [])])
def test_a_query_orders_only_what_had_ended(ts: float, expected: list[Any]) -> None:
    linked = linked_of([*WAIT, call("cudaEventQuery", ts, 2, 8), sync("Event Sync", ts, 1, 8, **EVENT_SYNC)])
    assert edges_of(linked, "sync") == expected
    assert linked.findings == ()


@pytest.mark.parametrize("name", ["cudaStreamSynchronize", "hipStreamSynchronize", "cuStreamSynchronize"])
def test_a_call_that_outlasts_the_end_of_a_stream_waited_for_it(name: str) -> None:
    events = [*TWO_STREAMS, call(name, 10, 47, 3)]
    assert found(events, "sync") == [("on_7", "end", name, "end")]
    assert evidence_of(events, "sync") == [f"{name} outlasts it"]


def test_a_call_for_the_device_waited_for_all_that_ended_inside_it() -> None:
    assert found([*TWO_STREAMS, call("hipDeviceSynchronize", 10, 47, 3)], "sync") == [
        ("on_7", "end", "hipDeviceSynchronize", "end"),
        ("on_8", "end", "hipDeviceSynchronize", "end"),
    ]


def test_a_stream_with_work_still_to_run_is_not_what_the_call_waited_for() -> None:
    events = [*TWO_STREAMS, call("cudaLaunchKernel", 7, 2, 4), kernel("more_on_7", 60, 5, 4)]
    assert found([*events, call("cudaStreamSynchronize", 10, 47, 3)], "sync") == [
        ("on_8", "end", "cudaStreamSynchronize", "end")
    ]


def test_an_event_may_lie_ahead_of_work_still_to_run() -> None:
    events = [*TWO_STREAMS, call("cudaLaunchKernel", 7, 2, 4), kernel("more_on_7", 60, 5, 4)]
    assert found([*events, call("cudaEventSynchronize", 10, 47, 3)], "sync") == [
        ("on_7", "end", "cudaEventSynchronize", "end")
    ]


@pytest.mark.parametrize(
    "event",
    [
        call("cudaStreamSynchronize", 80, 5, 3),
        call("cudaStreamSynchronize", 10, 5, 3),
        call("cudaMalloc", 10, 60, 3),
        call("cudaStreamSynchronize", 1, 90, 3, tid=2),
    ],
    ids=["all had ended", "returned before", "no wait by its name", "the work was issued later"],
)
def test_a_call_that_shows_no_effect_proves_nothing(event: Json) -> None:
    late = [call("cudaLaunchKernel", 2, 2, 1), kernel("on_7", 5, 50, 1)]
    assert found([*late, event], "sync") == []


@pytest.mark.parametrize(
    ("name", "copy", "expected"),
    [
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pinned)", True),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", True),
        ("hipMemcpyWithStream", "Memcpy DtoH (Device -> Host)", True),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", False),
        ("cudaMemcpy", "Memcpy DtoD (Device -> Device)", False),
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", False),
        ("cudaLaunchKernel", "gemm", False),
    ],
)
def test_a_copy_to_the_host_is_waited_for_by_its_call(name: str, copy: str, expected: bool) -> None:
    events = [call(name, 0, 50, 1), kernel(copy, 10, 20, 1, cat="gpu_memcpy")]
    assert found(events, "sync") == ([(copy, "end", name, "end")] if expected else [])
    assert found(events, "launch") == [(name, "start", copy, "start")]


def test_a_copy_that_outlasts_its_call_was_not_waited_for() -> None:
    events = [call("cudaMemcpy", 0, 15, 1), kernel("Memcpy DtoH", 10, 20, 1, cat="gpu_memcpy")]
    assert found(events, "sync") == []


def test_a_backward_op_follows_its_forward_op() -> None:
    events = [
        op("mm", 0, 5, Sequence_number=3),
        op("MmBackward0", 20, 5, tid=2, Sequence_number=3, Fwd_thread_id=1),
    ]
    assert found(events, "forward_backward") == [("mm", "end", "MmBackward0", "start")]
    assert evidence_of(events, "forward_backward") == ["sequence number 3"]


def test_parents_do_not_matter_to_dependencies() -> None:
    events = [
        op("mm", 0, 50, Record_function_id=5),
        call("cudaLaunchKernel", 10, 5, 7),
        kernel("gemm", 30, 9, 7),
    ]
    with_et = linked_of(events, et_of(node(20, "mm", 1001, rf_id=5)))
    assert with_et.dependencies.equals(linked_of(events).dependencies)


def test_work_without_its_call_was_issued_before_the_first_call_with_a_higher_correlation() -> None:
    """The window opens while the device runs what was launched before; a call waits for all of it."""
    events = [
        kernel("running", 0, 10, 3),
        call("cudaDeviceSynchronize", 5, 100, 6),
        kernel("queued", 10, 90, 4),
    ]
    waited = [("queued", "end", "cudaDeviceSynchronize", "end")]
    assert found(events, "sync") == waited
    later = [kernel("of another call", 10, 90, 7)]
    assert found([*events[:2], *later], "sync") == [("running", "end", "cudaDeviceSynchronize", "end")]


def test_the_last_work_to_end_in_a_call_for_the_device_stands_for_what_seems_to_outlast_it() -> None:
    events = [
        call("cudaLaunchKernel", 0, 1, 3),
        call("cudaLaunchKernel", 2, 1, 4),
        kernel("first", 10, 40, 3),
        kernel("last", 50, 61, 4),
    ]
    device = call("cudaDeviceSynchronize", 5, 100, 6)
    assert found([*events, device], "sync") == [("first", "end", "cudaDeviceSynchronize", "end")]
    assert found([*events, call("cudaStreamSynchronize", 5, 100, 6)], "sync") == []


def test_work_that_does_not_say_its_device_runs_on_that_of_its_lane() -> None:
    events = [call("launch", 0, 1, 3), kernel("work", 10, 40, 3), call("synchronizeStream", 5, 50, 6)]
    del events[1]["args"]["device"]
    assert found(events, "sync") == [("work", "end", "synchronizeStream", "end")]
