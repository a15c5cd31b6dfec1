"""Least times against peaks, what is lost, and utilisation by step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, op
from tests.unit.analysis.efficiency.made import BF16, FLOAT, called, tensor
from tests.unit.analysis.efficiency.test_counted_ops import launched
from tests.unit.linking.made import linked_of, row_of
from tracebraid.analysis.efficiency.mfu import mfu
from tracebraid.analysis.efficiency.op_costs import op_costs
from tracebraid.analysis.efficiency.recomputation import recomputation
from tracebraid.analysis.efficiency.roofline import roofline
from tracebraid.model.answers import MFU, OP_COSTS, RECOMPUTATION, ROOFLINE
from tracebraid.model.linked_trace import LinkedTrace

N = 1024
A100 = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42_505_273_344}]
PRODUCT, MATRIX = 2 * N**3, 2 * N * N
"""FLOPs of a product of squares, and bytes of each in bf16."""


def trace(**header: Any) -> LinkedTrace:
    """Two steps: a product that takes 10 us in the first, 20 in the second, where a sum of two takes 30 as well."""
    square = tensor(BF16, N, N)
    steps = [op(f"ProfilerStep#{i}", 100 * i, 90, cat="user_annotation") for i in (1, 2)]
    return linked_of(
        [
            *steps,
            *launched(called("aten::mm", square, square, ts=110), "gemm", 1, 10),
            *launched(called("aten::mm", square, square, ts=210), "gemm", 2, 20),
            *launched(called("aten::add", square, square, "1", ts=230), "add", 4, 30),
        ],
        header=header,
    )


def test_time_is_lost_against_the_longer_of_compute_and_memory() -> None:
    rows = roofline(trace(deviceProperties=A100))
    product = row_of(rows, name="aten::mm")
    least = 2 * PRODUCT / 312e12 * 1e9
    assert product["roofline_ns"] == round(least)
    assert product["lost_ns"] == 30_000 - round(least)
    assert product["roofline_share"] == pytest.approx(round(least) / 30_000)
    assert (product["bound"], product["precision"]) == ("compute", "bf16")
    added = row_of(rows, name="aten::add")
    assert added["roofline_ns"] == round(3 * MATRIX / 1555e9 * 1e9)
    assert added["bound"] == "memory"
    assert rows.get_column("name").to_list() == ["aten::add", "aten::mm"], "the most lost first"
    assert rows.get_column("lost_share").sum() == pytest.approx(1)


def test_peaks_that_are_given_count_on_any_device() -> None:
    unknown = trace(deviceProperties=[{"id": 0, "name": "Machine 9"}])
    assert roofline(unknown).is_empty()
    assert op_costs(unknown).get_column("bound").null_count() == 2
    given = roofline(unknown, peak_flops=1e15, peak_bandwidth=1e11)
    assert row_of(given, name="aten::mm")["roofline_ns"] == round(2 * 3 * MATRIX / 1e11 * 1e9)
    assert set(given.get_column("bound")) == {"memory"}


def test_a_peak_that_is_no_number_above_zero_is_none() -> None:
    assert roofline(trace(), peak_flops=0.0, peak_bandwidth=-1.0).is_empty()
    assert mfu(trace(), peak_flops=0.0).get_column("mfu").null_count() == 3


def test_a_run_that_needs_less_than_a_launch_is_bound_by_latency() -> None:
    small = tensor(FLOAT, 4)
    linked = linked_of(launched(called("aten::add", small, small, "1"), "add", 1))
    row = row_of(roofline(linked, peak_flops=1e12, peak_bandwidth=1e12), name="aten::add")
    assert row["bound"] == "latency"


def test_rates_are_per_second_of_device_time() -> None:
    row = row_of(op_costs(trace(), per_step=True), name="aten::mm", step="ProfilerStep#1")
    assert row["achieved_flops_per_s"] == pytest.approx(PRODUCT / 10e-6)
    assert row["achieved_bytes_per_s"] == pytest.approx(3 * MATRIX / 10e-6)
    assert row["flops_per_byte"] == pytest.approx(PRODUCT / (3 * MATRIX))


def test_utilisation_is_of_products_over_the_step() -> None:
    rows = mfu(trace(deviceProperties=A100))
    whole, first, second = rows.to_dicts()
    assert [row["model_flops"] for row in (whole, first, second)] == [2 * PRODUCT, PRODUCT, PRODUCT]
    assert first["span_ns"] == 90_000
    assert first["mfu"] == first["hfu"] == pytest.approx(PRODUCT / (90e-6 * 312e12))
    assert (first["precision"], first["known_share"]) == ("bf16", 1.0)


def test_a_step_without_products_has_no_precision_and_no_utilisation() -> None:
    steps: list[Json] = [op("ProfilerStep#1", 0, 90, cat="user_annotation")]
    rows = mfu(linked_of([*steps, called("aten::neg", tensor(FLOAT, 3), ts=200)]), peak_flops=1e12)
    assert rows.select("step", "model_flops", "mfu").rows() == [
        (None, 0, None),
        ("ProfilerStep#1", None, None),
    ]


def test_products_without_shapes_have_no_flops_instead_of_none_at_all() -> None:
    add = called("aten::add", tensor(FLOAT, 4), tensor(FLOAT, 4), "1")
    rows = mfu(
        linked_of([*launched(add, "add", 1), *launched(op("aten::mm", 50, 9), "gemm", 2)]), peak_flops=1e12
    )
    assert rows.select("model_flops", "hardware_flops", "mfu", "known_share").rows() == [
        (None, None, None, 0.5)
    ]


def test_an_empty_trace_has_empty_answers_of_the_right_form() -> None:
    linked = linked_of([])
    for function, table in (
        (op_costs, OP_COSTS),
        (roofline, ROOFLINE),
        (mfu, MFU),
        (recomputation, RECOMPUTATION),
    ):
        frame = function(linked)
        assert frame.is_empty()
        assert dict(frame.schema) == table.polars_schema()
