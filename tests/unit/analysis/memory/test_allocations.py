"""What was allocated, by which op and for what, and when it was released."""

from __future__ import annotations

import pytest

from tests.planted import CPU, Block, Scene
from tests.unit.analysis.memory.training import Training
from tracebraid.analysis.memory.allocations import allocations
from tracebraid.model.answers import ALLOCATIONS, MemoryCategory


def test_an_address_that_is_used_again_makes_two_allocations() -> None:
    scene = Scene()
    host = scene.thread()
    for wait in (30, 50):
        block = host.allocate(512)
        host.spend(wait)
        host.release(block)
        host.spend(5)
    table = allocations(scene.linked())
    assert table.select("size_bytes", "lifetime_ns").rows() == [(512, 30), (512, 50)]
    assert table.get_column("address").n_unique() == 1


def test_what_is_released_alone_was_there_before_the_trace_and_comes_first() -> None:
    scene = Scene()
    host = scene.thread()
    host.scene_allocator().allocated = 5000
    first = host.allocate(100)
    host.spend(10)
    host.release(Block(0x99, 4000, 0, first.event))
    rows = allocations(scene.linked()).select("size_bytes", "category", "released_ns", "allocated_ns").rows()
    assert [(size, category) for size, category, _, _ in rows] == [(4000, "before-trace"), (100, "unknown")]
    assert rows[0][3] is None
    assert rows[1][2] is None


def test_equal_addresses_of_two_devices_are_two() -> None:
    scene = Scene()
    host = scene.thread()
    blocks = [host.allocate(64, device) for device in (0, 1)]
    host.spend(10)
    host.release(blocks[1])
    table = allocations(scene.linked())
    assert blocks[0].address == blocks[1].address
    assert table.select("device", "lifetime_ns").rows() == [("0", None), ("1", 10)]


def test_a_release_that_was_lost_ends_where_the_address_is_allocated_again() -> None:
    scene = Scene()
    host = scene.thread()
    block = host.allocate(64)
    host.spend(10)
    host.scene_allocator().give(block.address, 64)
    host.allocate(64)
    table = allocations(scene.linked())
    assert table.get_column("lifetime_ns").to_list() == [10, None]
    assert table.get_column("released_in").to_list()[1] is None


def test_the_op_is_the_innermost_that_does_more_than_allocate() -> None:
    scene = Scene()
    host = scene.thread()
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
    scene = Scene()
    host = scene.thread()
    with host.op("aten::empty", 10):
        host.allocate(64)
        host.spend(10)
    assert allocations(scene.linked()).get_column("op").to_list() == ["aten::empty"]


def test_an_allocation_between_ops_has_none() -> None:
    scene = Scene()
    host = scene.thread()
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


@pytest.mark.parametrize("steps", [1, 3])
def test_every_block_of_training_has_its_category(steps: int) -> None:
    training, gradient = Training(), None
    for number in range(1, steps + 1):
        gradient = training.step(number, gradient)
    table = allocations(training.scene.linked())
    assert table.get_column("category").to_list() == [category.value for category in training.expected]


def test_what_is_made_before_the_first_forward_and_stays_is_a_parameter() -> None:
    training = Training()
    with training.host.op("aten::empty", 10):
        training.allocate(training.host, 1024, MemoryCategory.PARAMETERS)
    training.step(2, training.step(1))
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
    scene = Scene()
    host = scene.thread()
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


def test_a_trace_without_memory_has_none() -> None:
    scene = Scene()
    scene.thread().run("aten::mm", 10)
    table = allocations(scene.linked())
    assert table.is_empty()
    assert dict(table.schema) == ALLOCATIONS.polars_schema()
