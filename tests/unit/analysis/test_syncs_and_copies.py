"""Calls that wait and what they wait for; copies and fills with their directions, memories and bandwidths."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.cases import cases
from tests.planted import RETURN_NS, Copy, Scene, device_scene, host_scene, scenes
from tests.unit.linking.made import linked_of
from tracebraid.analyses import copies, copy_bandwidth, copy_bandwidth_series, sync_calls, syncs

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
    scene, host, stream = device_scene()
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


@cases("of_device, waited", {"all streams": (True, "long"), "its own work alone": (False, "short")})
def test_a_device_waits_for_all_streams_and_a_stream_for_its_own(of_device: bool, waited: str) -> None:
    scene, host = host_scene()
    host.launch(scene.stream(7), "long", 4 * KERNEL_NS)
    host.launch(scene.stream(20), "short", KERNEL_NS)
    host.synchronize(None if of_device else scene.stream(20))
    assert only(scene)["waited_event"] == scene.of(waited)[0].event_id


def test_an_event_waits_for_the_work_before_its_record() -> None:
    scene, host, stream = device_scene()
    before = host.launch(stream, "before", KERNEL_NS)
    event = host.record(stream)
    host.launch(stream, "behind", KERNEL_NS)
    planted = host.synchronize_event(event)
    row = only(scene)
    assert (row["kind"], row["waited_event"], row["method"]) == ("event", before.event_id, "recorded")
    assert row["blocked_ns"] == before.end - planted.ts


@cases(
    "api, pause, kind, method, waits",
    {
        "nothing to wait for": ("cudaStreamSynchronize", 4 * KERNEL_NS, "stream", "effect", False),
        "a query": ("cudaEventQuery", 0, "query", None, False),
        "an allocation in which work ends": ("cudaFree", 0, "allocation", "inferred", True),
    },
)
def test_calls_that_may_wait(api: str, pause: int, kind: str, method: str | None, waits: bool) -> None:
    scene, host, stream = device_scene()
    gemm = host.launch(stream, "gemm", KERNEL_NS)
    host.spend(pause)
    host.call(api, 2 * KERNEL_NS)
    row = only(scene)
    assert (row["kind"], row["waited_event"]) == (kind, gemm.event_id if waits else None)
    assert row["blocked_ns"] == (gemm.end - row["start_ns"] if waits else 0)
    assert row["blocked_ns"] + row["other_ns"] == 2 * KERNEL_NS
    if waits or kind == "query":
        assert (row["method"], row["confidence"]) == (method, 0.5 if waits else None)


def test_a_blocking_copy_waits_for_itself() -> None:
    scene, host, stream = device_scene()
    copy = host.copy(stream, Copy.DEVICE_TO_PAGEABLE, 4, KERNEL_NS, blocking=True)
    row = only(scene)
    assert (row["kind"], row["method"], row["waited_event"]) == ("copy", "launched", copy.event_id)
    assert (row["blocked_ns"], row["other_ns"]) == (copy.end - row["start_ns"], RETURN_NS)


def test_a_blocking_copy_waits_for_the_kernel_before_it_where_that_takes_longer() -> None:
    scene, host, stream = device_scene()
    gemm = host.launch(stream, "gemm", KERNEL_NS)
    with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
        copy = host.copy(stream, Copy.DEVICE_TO_PAGEABLE, 4, 2_000, blocking=True)
    row = only(scene)
    assert row["waited_event"] == gemm.event_id
    assert row["blocked_ns"] == copy.end - row["start_ns"]
    assert (row["op"], row["top_op"]) == ("aten::_local_scalar_dense", "aten::item")


def test_a_copy_that_the_host_does_not_wait_for_is_no_synchronisation() -> None:
    scene, host, stream = device_scene()
    host.copy(stream, Copy.DEVICE_TO_PINNED, 4, 2_000)
    host.copy(stream, Copy.DEVICE_TO_DEVICE, 4, 2_000)
    assert sync_calls(scene.linked()).is_empty()


def test_an_allocation_does_not_wait_for_what_was_launched_after_it_began() -> None:
    scene = Scene()
    host, other = scene.thread(), scene.thread("other", start=10_000)
    host.call("cudaMalloc", 100_000)
    other.launch(scene.stream(7), "later", 20_000)
    row = only(scene)
    assert (row["waited_event"], row["blocked_ns"]) == (None, 0)


@pytest.mark.parametrize(
    ("kind", "apis"),
    [
        ("device", "hipDeviceSynchronize cuCtxSynchronize"),
        ("stream", "hipStreamSynchronize synchronizeStream zeCommandQueueSynchronize urQueueFinish"),
        ("event", "cuEventSynchronize zeEventHostSynchronize"),
        ("query", "hipEventQuery cudaStreamQuery"),
        ("allocation", "hipMalloc cudaMallocHost cudaHostAlloc cudaFreeHost cuMemAlloc_v2"),
        ("copy", "cudaMemcpy"),
        (None, "cudaMallocAsync cudaFreeAsync cudaMemcpyAsync cudaStreamWaitEvent cudaEventRecord"),
        (None, "cudaLaunchKernel cudaFuncGetAttributes cudaStreamIsCapturing hipGetDevicePropertiesR0600"),
    ],
)
def test_calls_of_all_runtimes_are_known_and_others_do_not_count(kind: str | None, apis: str) -> None:
    scene, host = host_scene()
    for api in apis.split():
        host.call(api)
    found = sync_calls(scene.linked()).select("api", "kind").rows()
    assert found == ([] if kind is None else [(api, kind) for api in apis.split()])


def test_a_drivers_call_inside_a_runtimes_counts_with_that() -> None:
    linked = linked_of(
        [call("cudaStreamSynchronize", 0, 20, 1), call("cuStreamSynchronize", 2, 15, 2, cat="cuda_driver")]
    )
    assert sync_calls(linked).get_column("api").to_list() == ["cudaStreamSynchronize"]


def test_the_frame_is_the_innermost_outside_of_torch() -> None:
    scene, host = host_scene()
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
    scene, host = host_scene()
    with host.step(1), host.frame("torch/cuda/__init__.py(9): synchronize"), host.frame("<built-in wait>"):
        host.synchronize()
    row = only(scene)
    assert (row["frame"], row["annotation"], row["op"]) == ("<built-in wait>", None, None)


def test_calls_are_summed_up_by_caller_and_by_what_they_waited_for() -> None:
    scene, host, stream = device_scene()
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
    scene, host = host_scene()
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


@pytest.mark.parametrize("api_ns", [0, 40_000])
def test_a_stream_may_wait_for_another_through_an_event(api_ns: int) -> None:
    """Its own work had ended before: the other's is inferred if the call returns right after it."""
    scene, host = host_scene()
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


def copy(
    name: str, ts: float, dur: float, correlation: int, size: int | None = 1000, gb_per_s: float | None = None
) -> Json:
    cat = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    args: Json = {"bytes": size} if size is not None else {}
    if gb_per_s is not None:
        args["memory bandwidth (GB/s)"] = gb_per_s
    return kernel(name, ts, dur, correlation, cat=cat, **args)


def row_of(api: str, name: str, host_us: int = 2, **options: Any) -> Json:
    linked = linked_of([call(api, 0, host_us, 1), copy(name, 10, 5, 1, **options)])
    (row,) = copies(linked).to_dicts()
    return row


@pytest.mark.parametrize(
    ("name", "direction", "source", "target", "pinned"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "Pageable", "Device", False),
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "Pinned", "Device", True),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "Device", "Pinned", True),
        ("Memcpy DtoD (Device -> Device)", "DtoD", "Device", "Device", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", "Device", "Device", None),
        ("Memcpy HtoD (Host -> Device)", "HtoD", "Host", "Device", None),
        ("CopyHostToDevice", "HtoD", None, None, None),
        ("Memcpy M2D (Memory -> Device)", "HtoD", "Memory", "Device", None),
        ("some copy", None, None, None, None),
        ("Memset (Device)", None, None, "Device", None),
    ],
)
def test_the_name_says_the_direction_and_the_memories(
    name: str, direction: str | None, source: str | None, target: str | None, pinned: bool | None
) -> None:
    row = row_of("cudaMemcpyAsync", name)
    found = [row[column] for column in ("kind", "direction", "source", "target", "pinned")]
    assert found == ["fill" if name.startswith("Memset") else "copy", direction, source, target, pinned]
    if row["kind"] == "fill":
        assert row["host_wait"] is None


@pytest.mark.parametrize(
    ("api", "name", "host_wait"),
    [
        ("cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", "none"),
        ("cudaMemcpy", "Memcpy HtoD (Pinned -> Device)", "complete"),
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", "staged"),
        ("cudaMemcpy", "Memcpy HtoD (Pageable -> Device)", "staged"),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", "none"),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", "complete"),
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pinned)", "complete"),
        ("cudaMemcpy", "Memcpy DtoD (Device -> Device)", "none"),
        ("cudaMemcpyAsync", "Memcpy HtoH (Pinned -> Pinned)", "complete"),
        ("hipMemcpyWithStream", "Memcpy DtoD (Device -> Device)", "complete"),
        ("cudaMemcpyAsync", "some copy", None),
        ("cudaGraphLaunch", "Memcpy DtoH (Device -> Pageable)", None),
    ],
)
def test_the_api_and_the_memories_say_what_the_call_waits_for(
    api: str, name: str, host_wait: str | None
) -> None:
    assert row_of(api, name)["host_wait"] == host_wait


@pytest.mark.parametrize(("host_us", "awaited"), [(15, 1), (14, 0)])
def test_a_copy_is_awaited_if_its_call_returns_after_it(host_us: int, awaited: int) -> None:
    assert row_of("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", host_us)["awaited"] == awaited


def test_bandwidth_is_bytes_by_time_and_stands_beside_kinetos() -> None:
    name = "Memcpy DtoD (Device -> Device)"
    linked = linked_of([copy(name, 0, 1, 1, 1000, 0.9), copy(name, 5, 3, 2, 9000, 3.1)])
    (row,) = copies(linked).to_dicts()
    assert (row["bytes"], row["mean_bytes"], row["total_ns"]) == (10_000, 5_000.0, 4_000)
    assert row["bandwidth_bytes_per_s"] == pytest.approx(2.5e9)
    assert row["max_bandwidth_bytes_per_s"] == pytest.approx(3e9)
    assert row["kineto_bandwidth_bytes_per_s"] == pytest.approx(2e9)
    assert row["kineto_max_bandwidth_bytes_per_s"] == pytest.approx(3.1e9)


def test_copies_without_size_or_duration_have_no_bandwidth() -> None:
    name = "Memcpy DtoD (Device -> Device)"
    events = [copy(name, 0, 1, 1, None), copy(name, 5, 0, 2, 50), copy(name, 9, 1, 3, -7)]
    (row,) = copies(linked_of(events)).to_dicts()
    assert (row["count"], row["sized"], row["bytes"]) == (3, 1, 50)
    assert (row["bandwidth_bytes_per_s"], row["kineto_bandwidth_bytes_per_s"]) == (None, None)


def test_the_size_may_stand_on_the_call() -> None:
    hip = call("hipMemcpyWithStream", 0, 20, 1)
    hip["args"]["size"] = "2560"
    linked = linked_of([hip, copy("Memcpy HtoD (Host -> Device)", 10, 5, 1, None)])
    (row,) = copies(linked).to_dicts()
    assert (row["bytes"], row["bandwidth_bytes_per_s"]) == (2560, 512e6)


def test_the_direction_of_mtia_stands_in_an_argument() -> None:
    args = {"size": 1024, "direction": "DEVICE_TO_HOST", "stream": 3}
    linked = linked_of([complete("dma_request", "mtia_ccp_events", 0, 5, 17, 99, args)])
    assert copies(linked).select("direction", "bytes").rows() == [("DtoH", 1024)]
    assert copy_bandwidth(linked).get_column("name").to_list() == ["Memcpy DtoH"]


def test_the_op_that_asked_and_the_most_time_first() -> None:
    name = "Memcpy HtoD (Pinned -> Device)"
    events = [op("aten::copy_", 0, 5), call("cudaMemcpyAsync", 1, 2, 1), copy(name, 10, 5, 1)]
    others = [call("cudaMemcpyAsync", 6, 2, 2), copy(name, 20, 50, 2)]
    assert copies(linked_of([*events, *others])).select("op", "total_ns").rows() == [
        (None, 50_000),
        ("aten::copy_", 5_000),
    ]


def test_by_step_the_rows_add_up() -> None:
    steps = [op(f"ProfilerStep#{i}", 40 * i, 40, cat="user_annotation", tid=2) for i in (0, 1)]
    name = "Memcpy HtoD (Pinned -> Device)"
    work = [e for i in range(4) for e in (call("c", 20 * i, 2, i + 1), copy(name, 20 * i + 5, i + 1, i + 1))]
    linked = linked_of([*steps, *work])
    assert copies(linked, per_step=True).select("step", "count", "total_ns").rows() == [
        ("ProfilerStep#0", 2, 3_000),
        ("ProfilerStep#1", 2, 7_000),
    ]


def test_overlapping_copies_of_a_sort_add_their_bandwidths() -> None:
    first, second = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"
    linked = linked_of([copy(first, 0, 10, 1, gb_per_s=1.0), copy(second, 5, 10, 2, gb_per_s=2.0)])
    table = copy_bandwidth_series(linked)
    start = table.get_column("ts_ns")[0]
    assert [ts - start for ts in table.get_column("ts_ns")] == [0, 5_000, 10_000, 15_000]
    assert table.get_column("running").to_list() == [1, 2, 1, 0]
    assert table.get_column("bytes_per_s").to_list() == [1e9, 3e9, 2e9, 0.0]
    (row,) = copy_bandwidth(linked).to_dicts()
    assert (row["name"], row["count"], row["p50_bytes_per_s"]) == ("Memcpy HtoD", 3, 2e9)
    assert (row["min_bytes_per_s"], row["max_bytes_per_s"], row["mean_bytes_per_s"]) == (1e9, 3e9, 2e9)


def fills(*spans: tuple[float, float, float]) -> list[Json]:
    """Fills of a start, a duration and a bandwidth."""
    return [copy("Memset (Device)", ts, dur, i + 1, gb_per_s=by) for i, (ts, dur, by) in enumerate(spans)]


@cases(
    "copied, ends, series",
    {
        "back to back": (fills((0, 10, 1.0), (10, 10, 2.0)), 20_000, [1e9, 0.0, 2e9, 0.0]),
        "without length it lasts a microsecond": (fills((0, 0, 1.5)), 1_000, [1.5e9, 0.0]),
    },
)
def test_bandwidth_over_time(copied: list[Json], ends: int, series: list[float]) -> None:
    table = copy_bandwidth_series(linked_of(copied))
    times = table.get_column("ts_ns").to_list()
    assert (times[-1] - times[0], table.get_column("bytes_per_s").to_list()) == (ends, series)


def test_nothing_is_left_of_a_bandwidth_when_nothing_runs() -> None:
    overlapping = fills(*((i, 10, 0.1 * (i + 1) / 3) for i in range(7)))
    assert copy_bandwidth_series(linked_of(overlapping)).get_column("bytes_per_s")[-1] == 0.0
