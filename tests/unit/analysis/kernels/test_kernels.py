"""Which kernels and copies take the most time."""

from __future__ import annotations

import polars as pl
import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis import step_rows
from tracebraid.analysis.kernels.kernel_families import kernel_families
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


def test_the_spread_is_that_of_a_sample() -> None:
    linked = linked_of([kernel("k", 100 * i, d, i) for i, d in enumerate((10, 20, 30, 80))])
    row = kernels(linked).row(0, named=True)
    assert (row["median_ns"], row["p95_ns"]) == (25_000.0, pytest.approx(72_500.0))
    assert row["std_ns"] == pytest.approx(31_091.26, abs=0.01)


def test_one_run_has_no_spread() -> None:
    assert kernels(linked_of([kernel("k", 0, 10, 1)])).get_column("std_ns").to_list() == [None]


def test_the_family_is_that_of_most_of_its_time() -> None:
    linked = linked_of(
        [
            op("aten::mm", 0, 10),
            call("cudaLaunchKernel", 1, 2, 1),
            op("aten::sum", 20, 10),
            call("cudaLaunchKernel", 21, 2, 2),
            kernel("k", 100, 10, 1),
            kernel("k", 200, 11, 2),
        ]
    )
    assert kernels(linked).select("name", "family", "count").rows() == [("k", "reduction", 2)]
    assert kernel_families(linked).select("family", "total_ns", "by_op_ns").rows() == [
        ("reduction", 11_000, 11_000),
        ("gemm", 10_000, 10_000),
    ]


def test_means_leave_out_doubtful_steps_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    doubtful = pl.Series(["ProfilerStep#2"], dtype=pl.String)
    monkeypatch.setattr(step_rows, "doubtful_steps", lambda linked, annotation: doubtful)
    marks = [op(f"ProfilerStep#{i}", 100 * i, 100, cat="user_annotation") for i in (1, 2)]
    calls = [call("launch", 100 * i + 1, 2, i) for i in (1, 2)]
    events = [*marks, *calls, kernel("k", 110, 10, 1), kernel("k", 210, 90, 2)]
    row = kernels(linked_of(events)).row(0, named=True)
    assert (row["count"], row["total_ns"], row["max_ns"]) == (2, 100_000, 90_000)
    assert (row["mean_ns"], row["median_ns"], row["std_ns"]) == (10_000.0, 10_000.0, None)
    assert kernels(linked_of(events), with_doubtful=True).row(0, named=True)["mean_ns"] == 50_000.0
    assert kernels(linked_of(events), per_step=True).get_column("mean_ns").to_list() == [10_000.0, 90_000.0]
