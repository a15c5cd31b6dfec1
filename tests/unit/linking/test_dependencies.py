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


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(STREAM, "a>b b>c", id="the work before it on its stream"),
        pytest.param(
            [kernel("a", 0, 11, 1), kernel("b", 10, 5, 2)], "a>b", id="an overlap by rounding, in µs"
        ),
        pytest.param(
            [kernel("first", 0, 5, 1), kernel("a", 10, 20, 2), kernel("b", 15, 20, 3), kernel("c", 50, 1, 4)],
            "first>a first>b b>c",
            id="work that overlaps: only what had ended",
        ),
        pytest.param(
            [kernel("a", 10, 0, 1), kernel("b", 10, 0, 2), kernel("c", 10, 3, 3)],
            "a>b b>c",
            id="the order of the file",
        ),
    ],
)
def test_work_of_a_stream_is_in_order(events: list[Json], expected: str) -> None:
    pairs = [pair.split(">") for pair in expected.split()]
    assert found(events, "stream_order") == [(one, "end", other, "start") for one, other in pairs]
    assert set(evidence_of(events, "stream_order")) == {"stream 7"}


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


EVENT_SYNC = {"stream": -1, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 3}
ELSEWHERE = {**kernel("elsewhere", 5, 10, 9), "pid": 1}
ELSEWHERE["args"] = {**ELSEWHERE["args"], "device": 1}
MORE = [call("cudaLaunchKernel", 7, 2, 4), kernel("more_on_7", 60, 5, 4)]


@pytest.mark.parametrize(
    ("events", "waited_for", "name"),
    [
        pytest.param(
            [
                *TWO_STREAMS,
                call("cudaStreamSynchronize", 10, 47, 3),
                sync("Stream Sync", 10, 46, 3, stream=7),
            ],
            ["on_7"],
            "cudaStreamSynchronize",
            id="a stream sync: its stream alone",
        ),
        pytest.param(
            [
                *(*TWO_STREAMS, ELSEWHERE, call("cudaDeviceSynchronize", 10, 47, 3)),
                sync("Context Sync", 10, 46, 3, stream=-1),
            ],
            ["on_7", "on_8"],
            "cudaDeviceSynchronize",
            id="a context sync: every stream of its device",
        ),
        pytest.param(
            [*WAIT, call("cudaEventSynchronize", 18, 34, 8), sync("Event Sync", 18, 33, 8, **EVENT_SYNC)],
            ["last"],
            "cudaEventSynchronize",
            id="an event sync: what was issued before the record",
        ),
        *(
            pytest.param(
                [*TWO_STREAMS, call(name, 10, 47, 3)],
                ["on_7"],
                name,
                id=f"{name} outlasts the end of a stream",
            )
            for name in ("cudaStreamSynchronize", "hipStreamSynchronize", "cuStreamSynchronize")
        ),
        pytest.param(
            [*TWO_STREAMS, call("hipDeviceSynchronize", 10, 47, 3)],
            ["on_7", "on_8"],
            "hipDeviceSynchronize",
            id="a call for the device: all that ended inside it",
        ),
        pytest.param(
            [*TWO_STREAMS, *MORE, call("cudaStreamSynchronize", 10, 47, 3)],
            ["on_8"],
            "cudaStreamSynchronize",
            id="not a stream with work still to run",
        ),
        pytest.param(
            [*TWO_STREAMS, *MORE, call("cudaEventSynchronize", 10, 47, 3)],
            ["on_7"],
            "cudaEventSynchronize",
            id="an event may lie ahead of work still to run",
        ),
    ],
)
def test_a_call_that_synchronises_waits_for_work(
    events: list[Json], waited_for: list[str], name: str
) -> None:
    assert found(events, "sync") == [(work, "end", name, "end") for work in waited_for]


def test_the_evidence_of_a_wait_is_named() -> None:
    waits = call("cudaStreamSynchronize", 10, 47, 3)
    assert evidence_of([*TWO_STREAMS, waits], "sync") == ["cudaStreamSynchronize outlasts it"]
    recorded = sync("Stream Sync", 10, 46, 3, stream=7)
    assert evidence_of([*TWO_STREAMS, waits, recorded], "sync") == ["cuda_sync Stream Sync 3 of stream 7"]


@pytest.mark.parametrize(("ts", "expected"), [(60, [("last", "end", "cudaEventQuery", "end")]), (20, [])])
def test_a_query_orders_only_what_had_ended(ts: float, expected: list[Any]) -> None:
    linked = linked_of([*WAIT, call("cudaEventQuery", ts, 2, 8), sync("Event Sync", ts, 1, 8, **EVENT_SYNC)])
    assert edges_of(linked, "sync") == expected
    assert linked.findings == ()


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


# --- Threads that take turns, and threads that merely run side by side -------------------------------


FORWARD = [op("forward", 0, 500, Sequence_number=3), op("loss", 500, 100)]
BACKWARD = [
    op("MmBackward0", 700, 300, tid=2, Sequence_number=3, Fwd_thread_id=1),
    op("Accumulate", 1000, 500, tid=2),
]
OPTIMIZER = [op("step", 1600, 200)]


def test_backward_follows_the_thread_that_fell_silent_and_hands_back() -> None:
    events = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert found(events, "inter_thread") == [
        ("loss", "end", "MmBackward0", "start"),
        ("Accumulate", "end", "step", "start"),
    ]
    assert evidence_of(events, "inter_thread") == [
        "thread 1 is silent when its backward begins here",
        "thread 2, which runs the backward of this one, is silent meanwhile",
    ]


def test_an_annotation_around_backward_is_where_the_turns_begin_and_end() -> None:
    around = op("## backward ##", 610, 920, cat="user_annotation")
    assert found([*FORWARD, around, *BACKWARD, *OPTIMIZER], "inter_thread") == [
        ("Accumulate", "end", "## backward ##", "end"),
        ("## backward ##", "start", "MmBackward0", "start"),
    ]


def test_the_calling_thread_may_run_a_part_of_backward_itself() -> None:
    events = [*FORWARD, *BACKWARD, op("on_the_cpu", 1200, 10), *OPTIMIZER]
    assert found(events, "inter_thread") == [
        ("loss", "end", "MmBackward0", "start"),
        ("Accumulate", "end", "step", "start"),
    ]


@pytest.mark.parametrize("kind", ["op", "call"])
def test_a_thread_that_is_in_an_op_or_a_call_is_not_silent(kind: str) -> None:
    busy = op("long", 620, 2000) if kind == "op" else call("cudaDeviceSynchronize", 620, 2000, 9)
    assert found([*FORWARD, busy, *BACKWARD], "inter_thread") == []


PLAIN = [op("a1", 0, 300), op("b1", 400, 300, tid=2), op("a2", 900, 300)]


def test_two_threads_that_alternate_wait_for_each_other() -> None:
    assert found(PLAIN, "inter_thread") == [("a1", "end", "b1", "start"), ("b1", "end", "a2", "start")]
    assert (
        evidence_of(PLAIN, "inter_thread")[0]
        == "thread 1 alternates with this one, and all others are silent meanwhile"
    )


@pytest.mark.parametrize(
    "other",
    [
        [op("c", 0, 2000, tid=3)],
        [op("c", 450, 10, tid=3), op("c", 1000, 10, tid=3)],
    ],
    ids=["busy all along", "alive during both turns"],
)
def test_with_a_third_thread_alive_nobody_knows_who_handed_over(other: list[Json]) -> None:
    assert found([*PLAIN, *other], "inter_thread") == []


def test_threads_of_a_pool_that_run_one_at_a_time_do_not_wait_for_each_other() -> None:
    events = [op(f"task{i}", 400 * i, 300, tid=1 + i % 7) for i in range(20)]
    assert found(events, "inter_thread") == []


def test_threads_that_run_at_once_have_no_order() -> None:
    assert found([op("a", 0, 300), op("b", 100, 300, tid=2), op("c", 350, 300)], "inter_thread") == []


def test_short_silences_between_ops_hand_nothing_over() -> None:
    """Two busy threads whose small ops happen not to overlap."""
    events = [op(f"t{tid}_{i}", 20 * i + 10 * (tid - 1), 5, tid=tid) for i in range(100) for tid in (1, 2)]
    assert found(events, "inter_thread") == []


def test_one_thread_has_nobody_to_wait_for() -> None:
    assert found([op("a", 0, 300), op("b", 900, 300)], "inter_thread") == []


def test_a_thread_without_ops_takes_no_turns() -> None:
    """Such as the watchdog of a communication library, which queries events."""
    assert (
        found([op("a", 0, 300), call("cudaEventQuery", 600, 3, 1, tid=3), op("b", 900, 300)], "inter_thread")
        == []
    )
