"""What grows from step to step, and what the steps leave allocated."""

from __future__ import annotations

import pytest

from tests.planted import Scene
from tests.planted.scenes import clean
from tests.unit.analysis.memory.training import Training
from tracebraid.analysis.memory.memory_growth import memory_growth
from tracebraid.analysis.memory.memory_kept import memory_kept

LEAK = 700


def leaking(steps: int) -> Scene:
    """Each step leaves a block of `LEAK` bytes, allocated in `aten::add` of a module."""
    scene = Scene()
    host = scene.thread()
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


def test_without_steps_nothing_is_said() -> None:
    scene = Scene()
    scene.thread().allocate(5)
    assert memory_growth(scene.linked()).is_empty()
    assert memory_kept(scene.linked()).is_empty()
