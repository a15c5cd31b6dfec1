"""How the allocator copes, and who makes it call the device."""

from __future__ import annotations

import pytest

from tests.planted import CPU, SEGMENT_BYTES, Scene
from tests.planted.scenes import clean
from tracebraid.analysis.memory.allocator import allocator
from tracebraid.analysis.memory.allocator_calls import allocator_calls


def test_fragmentation_is_what_is_reserved_and_not_allocated_at_the_peak() -> None:
    scene = Scene()
    scene.thread().allocate(SEGMENT_BYTES // 4)
    (row,) = allocator(scene.linked()).to_dicts()
    assert row["reserved_at_peak_bytes"] == row["peak_reserved_bytes"] == SEGMENT_BYTES
    assert row["unused_at_peak_bytes"] == SEGMENT_BYTES * 3 // 4
    assert row["fragmentation"] == pytest.approx(0.75)


def test_the_cpu_reserves_nothing() -> None:
    scene = Scene()
    scene.thread().allocate(100, CPU)
    (row,) = allocator(scene.linked()).to_dicts()
    assert (row["peak_reserved_bytes"], row["fragmentation"], row["allocations"]) == (None, None, 1)


def test_calls_in_a_step_after_the_first_are_not_steady_state() -> None:
    scene = Scene()
    host = scene.thread()
    for number in (1, 2, 3):
        with host.step(number, 10), host.module("Linear_0"), host.op("aten::mm", 10):
            host.allocate(number * SEGMENT_BYTES, malloc_ns=1000 * number)
            host.spend(10)
    host.call("cudaMallocHost", 500)
    linked = scene.linked()
    (row,) = allocator(linked).to_dicts()
    assert (row["device_allocations"], row["steady_device_allocations"]) == (3, 2)
    assert (row["device_call_ns"], row["retries"]) == (6000, 0)
    by_step = allocator(linked, per_step=True)
    assert by_step.select("steady_device_allocations", "device_call_ns").rows() == [
        (0, 1000),
        (1, 2000),
        (1, 3000),
    ]
    (calls,) = allocator_calls(linked).to_dicts()
    assert (calls["call"], calls["kind"], calls["op"]) == ("cudaMalloc", "allocation", "aten::mm")
    assert (calls["module"], calls["count"], calls["steady_count"]) == ("Linear_0", 3, 2)
    assert (calls["total_ns"], calls["max_ns"]) == (6000, 3000)


def test_an_allocation_that_an_op_tries_again_after_releases_is_a_retry() -> None:
    scene = Scene()
    host = scene.thread()
    with host.op("aten::mm", 10):
        for api in ("cudaMalloc", "cudaFree", "cudaFree", "cudaMalloc"):
            host.call(api, 100)
        host.allocate(64)
        host.spend(10)
    with host.op("aten::mm", 10):
        host.call("cudaMalloc", 100)
        host.allocate(64)
        host.spend(10)
    (row,) = allocator(scene.linked()).to_dicts()
    assert (row["device_allocations"], row["device_releases"], row["retries"]) == (3, 2, 1)


def test_a_clean_run_calls_the_device_in_no_step() -> None:
    linked = clean(3).linked()
    assert allocator(linked).get_column("steady_device_allocations").to_list() == [0]
    assert allocator_calls(linked, per_step=True).get_column("step").to_list() == [None]


def test_calls_are_listed_without_instants() -> None:
    scene = Scene()
    scene.thread().call("hipMalloc", 100)
    linked = scene.linked()
    assert allocator(linked).is_empty()
    assert allocator_calls(linked).select("call", "count").rows() == [("hipMalloc", 1)]
