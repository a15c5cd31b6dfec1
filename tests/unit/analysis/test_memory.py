"""Memory: allocations by op and category, the peak and what is alive then, what grows, and the allocator's calls."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import CPU, SEGMENT_BYTES, Block, Scene, Thread, host_scene
from tests.planted.memory_training import Training
from tests.planted.scenes import clean
from tracebraid.analyses import (
    activations,
    allocations,
    allocator,
    allocator_calls,
    memory_at_peak,
    memory_growth,
    memory_kept,
    memory_peak,
    memory_timeline,
)
from tracebraid.analysis.memory.host import passes
from tracebraid.model.answers.memory import MemoryCategory
from tracebraid.model.linked_trace import LinkedTrace


def test_an_address_that_is_used_again_makes_two_allocations() -> None:
    scene, host = host_scene()
    for wait in (30, 50):
        block = host.allocate(512)
        host.spend(wait)
        host.release(block)
        host.spend(5)
    table = allocations(scene.linked())
    assert table.select("size_bytes", "lifetime_ns").rows() == [(512, 30), (512, 50)]
    assert table.get_column("address").n_unique() == 1


def test_what_is_released_alone_was_there_before_the_trace_and_comes_first() -> None:
    scene, host = host_scene()
    host.scene_allocator().allocated = 5000
    first = host.allocate(100)
    host.spend(10)
    host.release(Block(0x99, 4000, 0, first.event))
    rows = allocations(scene.linked()).select("size_bytes", "category", "released_ns", "allocated_ns").rows()
    assert [(size, category) for size, category, _, _ in rows] == [(4000, "before-trace"), (100, "unknown")]
    assert rows[0][3] is None
    assert rows[1][2] is None


def test_equal_addresses_of_two_devices_are_two() -> None:
    scene, host = host_scene()
    blocks = [host.allocate(64, device) for device in (0, 1)]
    host.spend(10)
    host.release(blocks[1])
    table = allocations(scene.linked())
    assert blocks[0].address == blocks[1].address
    assert table.select("device", "lifetime_ns").rows() == [("0", None), ("1", 10)]


def test_a_release_that_was_lost_ends_where_the_address_is_allocated_again() -> None:
    scene, host = host_scene()
    block = host.allocate(64)
    host.spend(10)
    host.scene_allocator().give(block.address, 64)
    host.allocate(64)
    table = allocations(scene.linked())
    assert table.get_column("lifetime_ns").to_list() == [10, None]
    assert table.get_column("released_in").to_list()[1] is None


def test_the_op_is_the_innermost_that_does_more_than_allocate() -> None:
    scene, host = host_scene()
    with (
        host.annotation("mine"),
        host.module("Outer_0"),
        host.module("Norm_1"),
        host.op("aten::layer_norm"),
        host.op("aten::native_layer_norm"),
        host.op("aten::empty", 10),
    ):
        host.allocate(64)
        host.spend(10)
    (row,) = allocations(scene.linked()).to_dicts()
    assert (row["op"], row["top_op"]) == ("aten::native_layer_norm", "aten::layer_norm")
    assert (row["module"], row["annotation"]) == ("Norm_1", "mine")


def test_an_op_that_only_allocates_is_named_where_there_is_no_other() -> None:
    scene, host = host_scene()
    with host.op("aten::empty", 10):
        host.allocate(64)
        host.spend(10)
    assert allocations(scene.linked()).get_column("op").to_list() == ["aten::empty"]


def test_an_allocation_between_ops_has_none() -> None:
    scene, host = host_scene()
    host.run("aten::mm", 10)
    host.allocate(64, CPU)
    host.spend(1)
    host.run("aten::mm", 10)
    (row,) = allocations(scene.linked()).to_dicts()
    assert (row["op"], row["top_op"], row["phase"], row["device"]) == (None, None, "other", "cpu")


def test_in_backward_the_module_is_that_of_the_forward_op() -> None:
    training = Training()
    training.step(1)
    table = allocations(training.scene.linked())
    assert table.filter(phase="backward", op="aten::mm").get_column("module").unique().to_list() == [
        "Linear_0"
    ]


@pytest.mark.parametrize(("steps", "parameters"), [(1, 0), (3, 0), (2, 1024)])
def test_every_block_of_training_has_its_category(steps: int, parameters: int) -> None:
    """What is made before the first forward pass and stays is a parameter."""
    training, gradient = Training(), None
    if parameters:
        with training.host.op("aten::empty", 10):
            training.allocate(training.host, parameters, MemoryCategory.PARAMETERS)
    for number in range(1, steps + 1):
        gradient = training.step(number, gradient)
    table = allocations(training.scene.linked())
    assert table.get_column("category").to_list() == [category.value for category in training.expected]


def test_what_forward_makes_and_the_next_step_still_holds_is_unknown() -> None:
    training = Training()
    gradient = training.step(1)
    with training.host.step(2, 10):
        with training.host.op("aten::relu", 10, sequence=training.scene.count("sequence")) as forward:
            training.allocate(training.host, 64, MemoryCategory.UNKNOWN)
        training.autograd.until(training.host.now)
        with training.autograd.backward("ReluBackward0", forward, training.host, 10):
            pass
        training.host.until(training.autograd.now + 10)
    training.step(3, gradient)
    table = allocations(training.scene.linked())
    assert table.filter(size_bytes=64).select("category", "rule").rows() == [("unknown", "kept-after-step")]


def test_without_backward_what_ops_pass_on_is_an_activation() -> None:
    scene, host = host_scene()
    with host.step(1, 10):
        with host.op("aten::linear", 10):
            inside = host.allocate(64)
            passed = host.allocate(128)
            host.spend(10)
            host.release(inside)
            host.spend(10)
        with host.op("aten::relu", 10):
            host.release(passed)
    table = allocations(scene.linked())
    assert table.select("category", "rule").rows() == [
        ("temporaries", "released-in-op"),
        ("activations", "passed-between-ops"),
    ]


def forward_and_backward(host: Thread, autograd: Thread, ops: int = 2) -> tuple[int, int, int]:
    """Starts of forward and backward, and the end of backward, in ns of the scene."""
    host.until(autograd.now)
    host.spend(5)
    begin, forward = host.now, []
    for _ in range(ops):
        with host.op("aten::relu", 10, sequence=host.scene.count("sequence")) as op:
            forward.append(op)
    autograd.until(host.now + 7)
    start = autograd.now
    for op in reversed(forward):
        with autograd.backward("ReluBackward0", op, host, 10):
            pass
        autograd.spend(3)
    host.until(autograd.now)
    return begin, start, autograd.now - 3


def test_a_step_that_accumulates_has_two_passes() -> None:
    scene = Scene()
    host, autograd = scene.thread(), scene.thread("autograd")
    planted = []
    with host.step(1, 10) as step:
        host.run("aten::randn", 10)
        planted += [forward_and_backward(host, autograd) for _ in range(2)]
    linked = scene.linked()
    found = passes(linked)
    first = linked.timeline.events.filter(event_id=step.event_id).get_column("ts_ns").item() - step.ts
    times = (found.forward_ns - first, found.begin_ns - first, found.end_ns - first)
    assert [tuple(map(int, of_pass)) for of_pass in zip(*times, strict=True)] == planted


def test_what_forward_runs_again_in_backward_ends_no_pass() -> None:
    """A checkpoint: forward ops inside of backward, with a backward of their own."""
    scene, host = host_scene()
    with host.step(1, 10):
        with host.op("aten::mm", 10, sequence=scene.count("sequence")) as outer:
            pass
        with host.backward("CheckpointFunctionBackward", outer, host, 10):
            with host.op("aten::relu", 10, sequence=scene.count("sequence")) as inner:
                again = host.allocate(64)
                host.spend(10)
            with host.backward("ReluBackward0", inner, host, 10):
                host.release(again)
                host.spend(10)
    linked = scene.linked()
    assert len(passes(linked).begin_ns) == 1
    assert allocations(linked).get_column("category").to_list() == ["temporaries"]


def test_without_sequence_numbers_a_step_has_one_pass() -> None:
    scene, host = host_scene()
    for number in (1, 2):
        with host.step(number, 10):
            for _ in range(3):
                host.run("autograd::engine::evaluate_function: MmBackward0", 10)
    assert len(passes(scene.linked()).begin_ns) == 2


def two_layers() -> Scene:
    """Two activations of 4096 and 1024 bytes that are held for 1000 and 9000 ns."""
    scene, host = host_scene()
    with host.step(1, 10):
        with host.op("aten::relu", 0, sequence=scene.count("sequence")) as first:
            small = host.allocate(1024)
            host.spend(8000)
        with host.op("aten::tanh", 0, sequence=scene.count("sequence")) as second:
            large = host.allocate(4096)
            host.spend(900)
        with host.backward("TanhBackward0", second, host, 100):
            host.release(large)
        with host.backward("ReluBackward0", first, host, 0):
            host.release(small)
            host.spend(10)
    return scene


def test_bytes_times_time_decides_the_order() -> None:
    table = activations(two_layers().linked())
    assert table.select("op", "size_bytes", "max_lifetime_ns").rows() == [
        ("aten::relu", 1024, 9000),
        ("aten::tanh", 4096, 1000),
    ]
    assert table.get_column("byte_seconds").to_list() == pytest.approx([1024 * 9e-6, 4096 * 1e-6])
    assert table.get_column("saved_byte_seconds").to_list() == [None, None]


def test_equal_activations_are_a_row_by_step_one_for_each() -> None:
    training, gradient = Training(), None
    for number in (1, 2, 3):
        gradient = training.step(number, gradient)
    linked = training.scene.linked()
    assert activations(linked).select("op", "count", "bytes").rows() == [
        ("aten::addmm", 3, 3 * 2048),
        ("aten::mse_loss", 3, 3 * 512),
    ]
    by_step = activations(linked, per_step=True)
    assert by_step.get_column("step").to_list() == [f"ProfilerStep#{i}" for i in (1, 1, 2, 2, 3, 3)]
    assert by_step.get_column("count").to_list() == [1] * 6


def test_y1() -> None:
    assert activations(Scene().linked()).is_empty()


def assert_rows_add_up(linked: LinkedTrace, per_step: bool) -> None:
    key = ["step", "device"]
    summed = memory_at_peak(linked, per_step=per_step).group_by(key).agg(pl.col("bytes").sum())
    found = memory_peak(linked, per_step=per_step).join(summed, on=key, how="left", nulls_equal=True)
    assert found.get_column("bytes").fill_null(0).to_list() == found.get_column("peak_bytes").to_list()
    parts = found.get_column("before_trace_bytes") + found.get_column("in_trace_bytes")
    assert parts.to_list() == found.get_column("peak_bytes").to_list()


def test_the_peak_is_the_allocators_and_its_rows_add_up() -> None:
    scene = clean(3)
    linked = scene.linked()
    peak = memory_peak(linked)
    assert peak.get_column("peak_bytes").to_list() == [scene.allocators[0].peak]
    for per_step in (False, True):
        assert_rows_add_up(linked, per_step)


def test_what_was_there_before_the_trace_is_a_row_of_its_own() -> None:
    scene, host = host_scene()
    host.scene_allocator().allocated = 5000
    with host.op("aten::relu", 10):
        block = host.allocate(300)
        host.spend(10)
    host.release(Block(0x99, 4000, 0, block.event))
    linked = scene.linked()
    assert memory_at_peak(linked).select("category", "op", "bytes", "count").rows() == [
        ("before-trace", None, 5000, None),
        ("unknown", "aten::relu", 300, 1),
    ]
    assert memory_at_peak(linked).get_column("share").sum() == pytest.approx(1.0)
    assert memory_peak(linked).select("before_trace_bytes", "in_trace_bytes", "allocations").rows() == [
        (5000, 300, 1)
    ]


def test_a_step_that_only_releases_has_its_peak_at_its_start() -> None:
    scene, host = host_scene()
    with host.step(1, 10):
        block = host.allocate(1000)
        host.spend(10)
    with host.step(2, 10) as second:
        host.release(block)
        host.spend(10)
    rows = memory_peak(scene.linked(), per_step=True).select("step", "peak_bytes", "peak_ns").rows()
    start = scene.linked().timeline.events.filter(event_id=second.event_id).get_column("ts_ns").item()
    assert rows[1] == ("ProfilerStep#2", 1000, start)
    assert_rows_add_up(scene.linked(), per_step=True)


def test_devices_have_a_peak_each_the_cpu_last() -> None:
    scene, host = host_scene()
    for size, device in ((100, CPU), (200, 1), (300, 0), (10, CPU)):
        host.allocate(size, device)
        host.spend(1)
    table = memory_peak(scene.linked())
    assert table.select("device", "peak_bytes").rows() == [("0", 300), ("1", 200), ("cpu", 110)]
    assert table.filter(device="cpu").get_column("reserved_bytes").to_list() == [None]


def test_the_peak_names_the_op_and_module_that_brought_it_there() -> None:
    training = Training()
    training.step(1)
    (row,) = memory_peak(training.scene.linked()).to_dicts()
    assert (row["op"], row["module"], row["source"]) == ("aten::addmm", "Linear_0", "instants")
    assert row["peak_bytes"] == 4096 + 4096 + 8192 + 2048


def test_totals_that_do_not_add_up_are_summed_from_the_sizes() -> None:
    """A total that jumps, as where instants were dropped: what the trace shows alive is what counts."""
    scene, host = host_scene()
    first = host.allocate(100)
    host.spend(1)
    host.scene_allocator().allocated = -70
    host.allocate(50)
    host.spend(1)
    host.release(first)
    table = memory_timeline(scene.linked())
    assert table.get_column("allocated_bytes").to_list() == [100, 150, 50]
    assert_rows_add_up(scene.linked(), per_step=False)


def test_the_timeline_has_every_change_with_its_step_and_op() -> None:
    scene, host = host_scene()
    with host.step(4, 10), host.op("aten::relu", 10):
        block = host.allocate(100)
        host.spend(5)
    host.release(block)
    table = memory_timeline(scene.linked())
    assert table.select("step", "size_bytes", "allocated_bytes", "op", "device", "source").rows() == [
        ("ProfilerStep#4", 100, 100, "aten::relu", "0", "instants"),
        (None, -100, 0, None, "0", "instants"),
    ]


LEAK = 700


def leaking(steps: int) -> Scene:
    """Each step leaves a block of `LEAK` bytes, allocated in `aten::add` of a module."""
    scene, host = host_scene()
    for number in range(1, steps + 1):
        with host.step(number, 10), host.module("Meter_0"), host.op("aten::add", 10):
            host.allocate(LEAK)
            block = host.allocate(64)
            host.spend(10)
            host.release(block)
            host.spend(10)
    return scene


def test_a_leak_shows_in_the_growth_of_each_step_and_in_the_slope() -> None:
    table = memory_growth(leaking(5).linked())
    assert table.get_column("start_bytes").to_list() == [LEAK * i for i in range(5)]
    assert table.get_column("end_bytes").to_list() == [LEAK * (i + 1) for i in range(5)]
    assert table.get_column("growth_bytes").to_list() == [None, LEAK, LEAK, LEAK, LEAK]
    assert table.get_column("kept_bytes").to_list() == [LEAK] * 5
    assert table.get_column("slope_bytes_per_step").to_list() == pytest.approx([LEAK] * 5)


def test_the_leak_has_its_op_and_module() -> None:
    (row,) = memory_kept(leaking(5).linked()).to_dicts()
    assert (row["op"], row["module"], row["size_bytes"]) == ("aten::add", "Meter_0", LEAK)
    assert (row["steps"], row["count"], row["bytes"]) == (3, 3, 3 * LEAK)
    assert row["bytes_per_step"] == pytest.approx(LEAK)


def test_three_steps_have_no_slope_without_the_first_of_them() -> None:
    linked = leaking(3).linked()
    assert memory_growth(linked).get_column("slope_bytes_per_step").to_list() == [None] * 3
    assert memory_kept(linked).is_empty()


def test_a_clean_run_neither_grows_nor_keeps() -> None:
    linked = clean(6).linked()
    table = memory_growth(linked)
    assert table.get_column("growth_bytes").drop_nulls().unique().to_list() == [0]
    assert table.get_column("slope_bytes_per_step").to_list() == [0.0] * 6
    assert memory_kept(linked).is_empty()


def test_state_of_the_optimizer_that_the_first_step_makes_is_no_leak() -> None:
    training, gradient = Training(), None
    for number in range(1, 6):
        gradient = training.step(number, gradient)
    linked = training.scene.linked()
    assert memory_kept(linked).is_empty()
    assert memory_growth(linked).get_column("slope_bytes_per_step").to_list() == [0.0] * 5


@pytest.mark.parametrize(
    ("device", "reserved", "unused", "fragmentation"),
    [(0, SEGMENT_BYTES, SEGMENT_BYTES * 3 // 4, pytest.approx(0.75)), (CPU, None, None, None)],
    ids=["device", "the CPU reserves nothing"],
)
def test_fragmentation_is_what_is_reserved_and_not_allocated_at_the_peak(
    device: int, reserved: int | None, unused: int | None, fragmentation: float | None
) -> None:
    scene = Scene()
    scene.thread().allocate(SEGMENT_BYTES // 4, device)
    (row,) = allocator(scene.linked()).to_dicts()
    assert row["reserved_at_peak_bytes"] == row["peak_reserved_bytes"] == reserved
    assert (row["unused_at_peak_bytes"], row["fragmentation"]) == (unused, fragmentation)
    assert row["allocations"] == 1


def test_calls_in_a_step_after_the_first_are_not_steady_state() -> None:
    scene, host = host_scene()
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
    scene, host = host_scene()
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
