"""Synchronising calls: what they waited for, for how long, who made them, and how that is known."""

from __future__ import annotations

import polars as pl
import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.planted import CALL_NS, RETURN_NS, Copy, Scene, scenes
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls
from tracebraid.analysis.launches.syncs.syncs import syncs
from tracebraid.model.answers import SYNC_CALLS, SYNCS

KERNEL_NS = 50_000


def only(scene: Scene) -> Json:
    (row,) = sync_calls(scene.linked()).to_dicts()
    return row


@pytest.mark.parametrize(
    ("recorded", "method", "confidence"), [(True, "recorded", 1.0), (False, "effect", 0.8)]
)
@pytest.mark.parametrize("of_device", [True, False])
def test_a_synchronisation_waits_for_the_last_work(
    recorded: bool, of_device: bool, method: str, confidence: float
) -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "first", KERNEL_NS)
    last = host.launch(stream, "last", KERNEL_NS)
    planted = host.synchronize(None if of_device else stream, recorded)
    row = only(scene)
    assert (row["call_event"], row["waited_event"]) == (planted.event_id, last.event_id)
    assert (row["waited_name"], row["waited_device"], row["waited_stream"]) == ("last", "0", "7")
    assert (row["host_ns"], row["blocked_ns"], row["other_ns"]) == (
        planted.dur,
        last.end - planted.ts,
        RETURN_NS,
    )
    assert (row["kind"], row["method"], row["confidence"]) == (
        "device" if of_device else "stream",
        method,
        confidence,
    )


def test_a_device_waits_for_the_last_of_all_streams() -> None:
    scene = Scene()
    host = scene.thread()
    long = host.launch(scene.stream(7), "long", 4 * KERNEL_NS)
    host.launch(scene.stream(20), "short", KERNEL_NS)
    host.synchronize()
    assert only(scene)["waited_event"] == long.event_id


def test_a_stream_waits_for_its_own_work_alone_where_it_is_recorded() -> None:
    scene = Scene()
    host = scene.thread()
    host.launch(scene.stream(7), "long", 4 * KERNEL_NS)
    short = host.launch(scene.stream(20), "short", KERNEL_NS)
    host.synchronize(scene.stream(20))
    assert only(scene)["waited_event"] == short.event_id


def test_an_event_waits_for_the_work_before_its_record() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    before = host.launch(stream, "before", KERNEL_NS)
    event = host.record(stream)
    host.launch(stream, "behind", KERNEL_NS)
    planted = host.synchronize_event(event)
    row = only(scene)
    assert (row["kind"], row["waited_event"], row["method"]) == ("event", before.event_id, "recorded")
    assert row["blocked_ns"] == before.end - planted.ts


def test_a_synchronisation_with_nothing_to_wait_for_is_not_blocked() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "done", KERNEL_NS)
    host.spend(4 * KERNEL_NS)
    host.synchronize(stream)
    row = only(scene)
    assert (row["blocked_ns"], row["other_ns"], row["waited_event"]) == (0, CALL_NS, None)


def test_a_blocking_copy_waits_for_itself() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    copy = host.copy(stream, Copy.DEVICE_TO_PAGEABLE, 4, KERNEL_NS, blocking=True)
    row = only(scene)
    assert (row["kind"], row["method"], row["waited_event"]) == ("copy", "launched", copy.event_id)
    assert (row["blocked_ns"], row["other_ns"]) == (copy.end - row["start_ns"], RETURN_NS)


def test_a_blocking_copy_waits_for_the_kernel_before_it_where_that_takes_longer() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    gemm = host.launch(stream, "gemm", KERNEL_NS)
    with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
        copy = host.copy(stream, Copy.DEVICE_TO_PAGEABLE, 4, 2_000, blocking=True)
    row = only(scene)
    assert row["waited_event"] == gemm.event_id
    assert row["blocked_ns"] == copy.end - row["start_ns"]
    assert (row["op"], row["top_op"]) == ("aten::_local_scalar_dense", "aten::item")


def test_a_copy_that_the_host_does_not_wait_for_is_no_synchronisation() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.copy(stream, Copy.DEVICE_TO_PINNED, 4, 2_000)
    host.copy(stream, Copy.DEVICE_TO_DEVICE, 4, 2_000)
    assert sync_calls(scene.linked()).is_empty()


def test_an_allocation_in_which_work_ends_may_have_waited_for_it() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    gemm = host.launch(stream, "gemm", KERNEL_NS)
    host.call("cudaFree", 2 * KERNEL_NS)
    row = only(scene)
    assert (row["kind"], row["waited_event"], row["method"]) == ("allocation", gemm.event_id, "inferred")
    assert (row["confidence"], row["blocked_ns"]) == (0.5, gemm.end - row["start_ns"])


def test_an_allocation_does_not_wait_for_what_was_launched_after_it_began() -> None:
    scene = Scene()
    host, other = scene.thread(), scene.thread("other", start=10_000)
    host.call("cudaMalloc", 100_000)
    other.launch(scene.stream(7), "later", 20_000)
    row = only(scene)
    assert (row["waited_event"], row["blocked_ns"]) == (None, 0)


def test_a_query_waits_for_nothing() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "gemm", KERNEL_NS)
    host.call("cudaEventQuery", 2 * KERNEL_NS)
    row = only(scene)
    assert (row["kind"], row["blocked_ns"], row["waited_event"], row["method"]) == ("query", 0, None, None)


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("hipDeviceSynchronize", "device"),
        ("cuCtxSynchronize", "device"),
        ("hipStreamSynchronize", "stream"),
        ("synchronizeStream", "stream"),
        ("zeCommandQueueSynchronize", "stream"),
        ("urQueueFinish", "stream"),
        ("cuEventSynchronize", "event"),
        ("zeEventHostSynchronize", "event"),
        ("hipEventQuery", "query"),
        ("cudaStreamQuery", "query"),
        ("hipMalloc", "allocation"),
        ("cudaMallocHost", "allocation"),
        ("cudaHostAlloc", "allocation"),
        ("cudaFreeHost", "allocation"),
        ("cuMemAlloc_v2", "allocation"),
        ("cudaMemcpy", "copy"),
    ],
)
def test_calls_of_all_runtimes_are_known(api: str, kind: str) -> None:
    scene = Scene()
    scene.thread().call(api)
    assert only(scene)["kind"] == kind


@pytest.mark.parametrize(
    "api",
    [
        "cudaMallocAsync",
        "cudaFreeAsync",
        "cudaMemcpyAsync",
        "cudaStreamWaitEvent",
        "cudaEventRecord",
        "cudaLaunchKernel",
        "cudaFuncGetAttributes",
        "cudaStreamIsCapturing",
        "hipGetDevicePropertiesR0600",
    ],
)
def test_other_calls_do_not_count(api: str) -> None:
    scene = Scene()
    scene.thread().call(api)
    assert sync_calls(scene.linked()).is_empty()


def test_a_drivers_call_inside_a_runtimes_counts_with_that() -> None:
    linked = linked_of(
        [call("cudaStreamSynchronize", 0, 20, 1), call("cuStreamSynchronize", 2, 15, 2, cat="cuda_driver")]
    )
    assert sync_calls(linked).get_column("api").to_list() == ["cudaStreamSynchronize"]


def test_the_frame_is_the_innermost_outside_of_torch() -> None:
    scene = Scene()
    host = scene.thread()
    with (
        host.step(1),
        host.annotation("eval"),
        host.frame("train.py(12): main"),
        host.frame("metrics.py(40): accuracy"),
        host.frame("torch/_tensor.py(600): __bool__"),
        host.frame("<built-in method item of Tensor object at 0x7f0000000000>"),
        host.op("aten::item"),
    ):
        host.synchronize(scene.stream(7))
    row = only(scene)
    assert (row["frame"], row["annotation"]) == ("metrics.py(40): accuracy", "eval")
    assert (row["step"], row["op"], row["top_op"]) == ("ProfilerStep#1", "aten::item", "aten::item")


def test_without_a_frame_of_the_users_it_is_the_innermost() -> None:
    scene = Scene()
    host = scene.thread()
    with host.step(1), host.frame("torch/cuda/__init__.py(9): synchronize"), host.frame("<built-in wait>"):
        host.synchronize()
    row = only(scene)
    assert (row["frame"], row["annotation"], row["op"]) == ("<built-in wait>", None, None)


def test_calls_are_summed_up_by_caller_and_by_what_they_waited_for() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.op("aten::item"):
        for name in ("gemm", "gemm", "softmax"):
            host.launch(stream, name, KERNEL_NS)
            host.synchronize(stream)
        host.synchronize(stream)
    linked = scene.linked()
    table = syncs(linked)
    assert table.select("waited_name", "count", "waits").rows() == [
        ("gemm", 2, 2),
        ("softmax", 1, 1),
        (None, 1, 0),
    ]
    calls = sync_calls(linked)
    for column in ("host_ns", "blocked_ns"):
        assert table.get_column(column).sum() == calls.get_column(column).sum()
    assert table.row(0, named=True)["max_ns"] == calls.filter(waited_name="gemm").get_column("host_ns").max()


def test_by_step_a_call_counts_where_it_starts() -> None:
    scene = Scene()
    host = scene.thread()
    for number in (1, 2):
        with host.step(number):
            for _ in range(number):
                host.synchronize()
        host.spend(10)
    assert syncs(scene.linked(), per_step=True).select("step", "count").rows() == [
        ("ProfilerStep#1", 1),
        ("ProfilerStep#2", 2),
    ]


def test_dependencies_are_not_asked_for_where_no_work_ends_in_a_call() -> None:
    linked = linked_of([call("cudaDeviceSynchronize", 0, 5, 1), call("l", 10, 2, 2), kernel("k", 20, 5, 2)])
    sync_calls(linked)
    assert not linked.stages.dependencies.is_computed


def test_a_trace_without_calls_has_empty_tables_of_the_schema() -> None:
    linked = linked_of([op("a", 0, 5), kernel("no call", 5, 5, 1)])
    for table, declared in ((sync_calls(linked), SYNC_CALLS), (syncs(linked), SYNCS)):
        assert table.is_empty()
        assert dict(table.schema) == declared.polars_schema()


@pytest.mark.parametrize("api_ns", [0, 40_000])
def test_a_stream_may_wait_for_another_through_an_event(api_ns: int) -> None:
    """Its own work had ended before: the other's is inferred if the call returns right after it."""
    scene = Scene()
    host = scene.thread()
    own, other = scene.stream(20), scene.stream(7)
    host.launch(own, "own", 1_000)
    host.spend(20_000)
    long = host.launch(other, "long", KERNEL_NS)
    host.wait_event(own, host.record(other))
    call = host.synchronize(own)
    call.dur += api_ns
    row = only(scene)
    expected = (long.event_id, "inferred") if api_ns == 0 else (None, "recorded")
    assert (row["waited_event"], row["method"]) == expected


def test_a_clean_run_waits_once_in_the_end() -> None:
    scene = scenes.clean()
    waiting = sync_calls(scene.linked()).filter(pl.col("blocked_ns") > 0)
    last = max(scene.stream(7).work, key=lambda work: work.end)
    assert waiting.select("api", "waited_event", "step").rows() == [
        ("cudaDeviceSynchronize", last.event_id, None)
    ]


@pytest.mark.parametrize(
    ("correlation", "rows"), [(7, ["synchronizeStream"]), (8, ["synchronizeStream", "synchronize"])]
)
def test_a_wait_that_another_thread_carries_out_counts_once(correlation: int, rows: list[str]) -> None:
    linked = linked_of(
        [
            call("synchronizeStream", 10, 50, 7, cat="mtia_runtime"),
            complete("synchronize", "mtia_runtime", 11, 48, 17, 3704, {"correlation": correlation}),
        ]
    )
    assert sync_calls(linked).get_column("api").to_list() == rows
    assert syncs(linked).get_column("count").sum() == len(rows)


def test_calls_of_one_correlation_after_each_other_are_two_waits() -> None:
    linked = linked_of(
        [call("cudaStreamSynchronize", 10, 5, 7), call("cudaStreamSynchronize", 20, 5, 7, tid=9)]
    )
    assert sync_calls(linked).height == 2
