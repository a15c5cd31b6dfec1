"""Traces in which something is missing or wrong, as events of a Kineto file."""

from __future__ import annotations

from tests.builders import Json, call, complete, flow, kernel, op

_STEP = "user_annotation"
_RANGE: Json = {"flops": None, "dram": [1], "": "x"}


def _fill(number: int, size: object, bandwidth: object) -> Json:
    found = kernel("Memset (Device)", 10 * number, 5, number, cat="gpu_memset")
    found["args"] |= {"bytes": size, "memory bandwidth (GB/s)": bandwidth}
    return found


def _wait(ts: float, **args: object) -> Json:
    kind = "Stream Wait Event"
    return complete(kind, "cuda_sync", ts, 1, 0, 7, {"cuda_sync_kind": kind, "stream": 7, **args})


TRACES: dict[str, list[Json]] = {
    "nothing": [],
    "one op": [op("aten::mm", 5, 2)],
    "an instant op": [op("aten::mm", 5, 0)],
    "one call": [call("cudaDeviceSynchronize", 0, 5, 1)],
    "one kernel": [kernel("k", 5, 2, 1)],
    "a step alone": [op("ProfilerStep#1", 0, 50, cat=_STEP)],
    "a step without length": [
        op("ProfilerStep#1", 10, 0, cat=_STEP),
        kernel("a", 0, 5, 1),
        kernel("b", 20, 5, 2),
    ],
    "steps that overlap": [
        *(op("ProfilerStep#1", 0, 50, cat=_STEP), op("ProfilerStep#1", 70, 10, cat=_STEP)),
        *(op("ProfilerStep#2", 20, 60, cat=_STEP, tid=2), op("ProfilerStep#2", 25, 10, cat=_STEP, tid=3)),
        *(call("cudaLaunchKernel", 20 * i, 5, i + 1) for i in range(6)),
        *(kernel("k", 20 * i + 7, 5, i + 1) for i in range(6)),
    ],
    "steps far from the device": [
        *(op("ProfilerStep#1", 0, 5, cat=_STEP), op("ProfilerStep#2", 1000, 5, cat=_STEP)),
        *(kernel("k", ts, 3, ts) for ts in (400, 500)),
    ],
    "kernels without length": [kernel("k", ts, 0, ts) for ts in (5, 9, 9, 12)],
    "negative durations": [
        call("cudaMemcpy", 50, -5, 1),
        kernel("k", 60, -5, 1),
        op("a", 40, -8),
        kernel("k", 3, 0, 3),
    ],
    "durations that overflow": [
        call("l", 0, 9e15, 1),
        kernel("Memcpy DtoH (Device -> Pageable)", 5, 9e15, 1, cat="gpu_memcpy", bytes=4),
        call("cudaMemcpy", 5, 9e15, 2),
        kernel("k", 0, 9e12, 3),
        kernel("k", 5, 1, 4),
    ],
    "no durations": [
        *(op("ProfilerStep#1", 0, 100, cat=_STEP), call("cudaMemcpy", 5, 0, 1)),
        kernel("Memcpy HtoD (Pinned -> Device)", 5, 0, 1),
        {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD (Pageable -> Device)",
            "pid": 0,
            "tid": 7,
            "ts": 2.0,
        },
    ],
    "no names": [{**kernel("", 0, 5, 1), "name": None}, kernel("", 10, 5, 2)],
    "no arguments": [complete("k", "kernel", ts, 3, 0, 7) for ts in (1, 9)],
    "lanes by name": [complete("k", "kernel", ts, 3, "GPU", "queue", {}) for ts in (1, 9)],
    "no correlation": [complete("cudaLaunchKernel", "cuda_runtime", 0, 5, 1, 1), kernel("k", 3, 5, 0)],
    "one correlation for all": [
        *(call("cudaLaunchKernel", i, 1, 7) for i in range(4)),
        *(kernel("k", ts, 1, 7) for ts in (9, 90, 95)),
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
    "events that outlast their parents": [
        *(op("a", 0, 20), op("b", 10, 30), op("c", 15, 40), call("cudaLaunchKernel", 18, 90, 1)),
        *(kernel("before", 2, 3, 9), kernel("k", 120, 5, 1)),
    ],
    "waits for nobody": [
        _wait(5),
        _wait(6, wait_on_stream=-1, wait_on_cuda_event_record_corr_id=-1, correlation=3, device=0),
        *(kernel("k", ts, 3, ts) for ts in (1, 9)),
    ],
    "only waits": [complete("event_wait", "mtia_ccp_events", 5, 1, 0, 7, {})],
    "only flows": [flow("s", 1, 5), flow("f", 1, 9)],
    "values of other types": [_fill(1, "many", "inf"), _fill(2, -4, -1)],
    "counters without numbers": [complete("gemm", "cuda_profiler_range", 0, 5, 0, 0, _RANGE)],
    "captures without an end, without a start, and empty": [
        *(call("cudaStreamEndCapture", 0, 1, 1), call("cudaStreamBeginCapture", 5, 1, 2)),
        *(call("cudaStreamEndCapture", 9, 1, 3), call("cudaStreamBeginCapture", 20, 1, 4)),
        *(call("cudaLaunchKernel", 22, 1, 5), call("cudaGraphLaunch", 30, 1, 6), kernel("k", 32, 1, 6)),
    ],
    "nodes with and without ids": [
        call("cudaGraphLaunch", 10, 1, 3),
        kernel("k", 12, 1, 3, **Json({"graph id": 2, "graph node id": 9})),
        kernel("l", 14, 1, 3, **Json({"graph id": 2})),
        kernel("m", 16, 1, 3),
    ],
}
