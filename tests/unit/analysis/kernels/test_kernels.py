"""Which kernels and copies take the most time."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.model.answers import KERNELS


def test_the_longest_in_total_comes_first() -> None:
    linked = linked_of([kernel("once", 0, 30, 1), kernel("often", 50, 20, 2), kernel("often", 80, 25, 3)])
    table = kernels(linked)
    assert table.select("name", "count", "total_ns", "mean_ns", "min_ns", "max_ns").rows() == [
        ("often", 2, 45_000, 22_500.0, 20_000, 25_000),
        ("once", 1, 30_000, 30_000.0, 30_000, 30_000),
    ]


def test_shares_add_up_to_one() -> None:
    linked = linked_of([kernel(f"k{i}", 10 * i, i + 1, i) for i in range(7)])
    assert kernels(linked).get_column("share").sum() == pytest.approx(1.0)
    assert kernels(linked).get_column("share")[0] == pytest.approx(7 / 28)


def test_one_name_in_two_kinds_is_two_rows() -> None:
    linked = linked_of([kernel("x", 0, 30, 1), kernel("x", 50, 20, 2, cat="gpu_memcpy")])
    assert kernels(linked).select("kind", "name").rows() == [("compute", "x"), ("memory", "x")]


def test_kernels_of_no_duration_have_no_share() -> None:
    assert kernels(linked_of([kernel("x", 0, 0, 1)])).get_column("share").to_list() == [0.0]


def test_a_kernel_belongs_to_the_step_in_which_it_was_launched() -> None:
    linked = linked_of(
        [
            op("ProfilerStep#1", 0, 100, cat="user_annotation"),
            op("ProfilerStep#2", 100, 100, cat="user_annotation"),
            call("launch", 90, 2, 1),
            kernel("late", 150, 30, 1),
        ]
    )
    assert kernels(linked, per_step=True).select("step", "name").rows() == [("ProfilerStep#1", "late")]


def test_a_kernel_of_an_unknown_launch_belongs_to_no_step() -> None:
    """It was launched before the window: to the step in which it ran it is no cost."""
    linked = linked_of([op("ProfilerStep#2", 100, 100, cat="user_annotation"), kernel("k", 150, 30, 1)])
    assert kernels(linked, per_step=True).select("step", "name").rows() == [(None, "k")]


def test_a_kernel_whose_op_is_known_by_external_id_belongs_to_its_ops_step() -> None:
    linked = linked_of(
        [
            op("ProfilerStep#2", 100, 100, cat="user_annotation"),
            op("mm", 110, 10, External_id=5),
            kernel("k", 350, 30, 1, **Json({"External id": 5})),
        ]
    )
    assert kernels(linked, per_step=True).select("step", "name").rows() == [("ProfilerStep#2", "k")]


def test_a_kernel_outside_of_all_steps_has_none() -> None:
    linked = linked_of([op("ProfilerStep#2", 100, 100, cat="user_annotation"), kernel("k", 350, 30, 1)])
    assert kernels(linked, per_step=True).get_column("step").to_list() == [None]


def test_shares_of_each_step_add_up_to_one() -> None:
    linked = linked_of(
        [
            op("train#1", 0, 100, cat="user_annotation"),
            op("train#2", 100, 100, cat="user_annotation"),
            *(call("launch", 20 * i, 2, i + 1) for i in range(10)),
            *(kernel(f"k{i}", 20 * i + 5, 5 + i, i + 1) for i in range(10)),
        ]
    )
    table = kernels(linked, per_step=True, annotation="train")
    for step in ("train#1", "train#2"):
        assert table.filter(step=step).get_column("share").sum() == pytest.approx(1.0)


def test_steps_come_in_the_order_of_time() -> None:
    marks = [op(f"ProfilerStep#{i}", 100 * i, 100, cat="user_annotation") for i in (8, 9, 10, 11)]
    launches = [call("launch", 100 * i + 1, 2, i) for i in (8, 9, 10, 11)]
    linked = linked_of([*marks, *launches, *(kernel("k", 100 * i + 5, 5, i) for i in (8, 9, 10, 11))])
    found = kernels(linked, per_step=True).get_column("step").to_list()
    assert found == [f"ProfilerStep#{i}" for i in (8, 9, 10, 11)]


def test_a_trace_without_device_has_an_empty_table_of_the_schema() -> None:
    for per_step in (False, True):
        table = kernels(linked_of([op("a", 0, 5)]), per_step=per_step)
        assert table.is_empty()
        assert dict(table.schema) == KERNELS.polars_schema()


def test_the_table_has_its_declared_schema() -> None:
    linked = linked_of([kernel("k", 0, 5, 1), op("ProfilerStep#1", 0, 5, cat="user_annotation")])
    for per_step in (False, True):
        assert dict(kernels(linked, per_step=per_step).schema) == KERNELS.polars_schema()
