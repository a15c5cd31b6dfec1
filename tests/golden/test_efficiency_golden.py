"""Efficiency on real traces: figures that can be computed from the file by hand, and what must hold on any."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.golden.linked import pair
from tests.golden.test_analyze_golden import FILES, linked_of
from tests.unit.linking.made import row_of
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.catalog import ANALYSES
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.efficiency.mfu import mfu
from tracebraid.analysis.efficiency.op_costs import op_costs
from tracebraid.analysis.efficiency.roofline import roofline
from tracebraid.model.linked_trace import LinkedTrace


@pytest.mark.parametrize("name", FILES)
def test_every_analysis_answers_with_its_table_and_without_nan(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    for analysis in ANALYSES:
        frame = analysis.answer(linked)
        assert dict(frame.schema) == analysis.table.polars_schema()
        numbers = frame.select(pl.col(pl.Float64))
        assert not any(column.is_nan().any() or column.is_infinite().any() for column in numbers)
        assert frame.equals(analysis.answer(linked)), "rows come in one order"


@pytest.mark.parametrize("name", FILES)
def test_device_time_of_rows_is_that_of_all_that_ops_launched(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    costs = op_costs(linked)
    assert costs.is_empty() or has_shapes(linked)
    if linked.timeline.has_device and has_shapes(linked):
        work = device_events(linked).filter(pl.col("op_event").is_not_null())
        assert costs.get_column("device_ns").sum() == work.get_column("dur_ns").sum()
        assert costs.get_column("kernels").sum() == work.height
    by_step = op_costs(linked, per_step=True)
    for column in ("device_ns", "count", "kernels"):
        assert by_step.get_column(column).sum() == costs.get_column(column).sum()


@pytest.mark.parametrize("name", FILES)
def test_what_is_lost_is_what_the_least_time_leaves(real_traces: Path, name: str) -> None:
    rows = roofline(linked_of(real_traces, name), peak_flops=1e14, peak_bandwidth=1e12)
    assert rows.filter(pl.col("roofline_ns") + pl.col("lost_ns") != pl.col("device_ns")).is_empty()
    assert rows.get_column("lost_ns").is_sorted(descending=True)


def known_share(linked: LinkedTrace) -> float:
    """Of the time of all device events, that of ops whose FLOPs or bytes are known."""
    known = counted_ops(linked).filter(pl.col("flops").is_not_null() | pl.col("bytes").is_not_null())
    return int(known.get_column("device_ns").sum()) / int(device_events(linked).get_column("dur_ns").sum())


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("h100_qwen_stack_memory", 0.69),
        ("mi300x_qwen_stack_memory", 0.69),
        ("mi250_minitoy_train", 1.0),
        ("mi300x_compile_triton", 1.0),
        ("triton_example", 1.0),
        ("sampled_2_of_128:0", 0.78),
        ("sampled_2_of_128:1", 0.70),
    ],
)
def test_rules_cover_the_time_of_traces_with_shapes(real_traces: Path, name: str, least: float) -> None:
    """The rest: of Qwen, kernels that no op in the trace launched; of the sampled ranks, fbgemm's tables."""
    assert known_share(linked_of(real_traces, name)) >= least


def test_an_execution_trace_adds_what_the_kineto_trace_lacks(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/linear_2080ti")
    costs = op_costs(linked).filter(pl.col("name").is_in(["aten::mm", "aten::addmm"]))
    assert linked.timeline.host_ops.get_column("input_dims").null_count() == linked.timeline.host_ops.height
    known = costs.filter(pl.col("flops").is_not_null())
    assert known.height > 0
    for dims, flops, count in known.select("input_dims", "flops", "count").iter_rows():
        (m, k), (_, n) = [shape for shape in json.loads(dims) if len(shape) == 2]
        assert flops == 2 * m * k * n * count


def test_flops_of_a_forward_pass_of_qwen_are_those_of_its_layers(real_traces: Path) -> None:
    """24 layers of width 1024 and inner width 2816, 16 heads, 16 sequences of 559 tokens; no backward pass."""
    linked = linked_of(real_traces, "h100_qwen_stack_memory")
    tokens, width, inner, layers = 16 * 559, 1024, 2816, 24
    ours = op_costs(linked).group_by("name").agg(pl.col("flops").sum(), pl.col("count").sum())
    assert row_of(ours, name="aten::addmm")["flops"] == 3 * layers * 2 * tokens * width * width
    products = 2 * tokens * (width * width + 3 * width * inner)
    assert row_of(ours, name="aten::mm")["flops"] == layers * products, "out, gate, up and down"
    attention = row_of(ours, name="aten::_scaled_dot_product_flash_attention")
    assert attention["flops"] == layers * 4 * 16 * 16 * 559 * 559 * 64


def test_figures_of_devices_are_found_for_the_traces_of_known_ones(real_traces: Path) -> None:
    names = ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory", "mi300x_compile_triton", "triton_example"]
    for name in names:
        assert roofline(linked_of(real_traces, name)).height > 0
    for row in mfu(linked_of(real_traces, "mi300x_compile_triton")).iter_rows(named=True):
        assert row["peak_flops_per_s"] == 1307.4e12
        assert 0 < row["mfu"] == row["hfu"] < 1
    assert roofline(linked_of(real_traces, "mi250_minitoy_train")).is_empty(), (
        "a device that is only `Radeon`"
    )


def test_products_stay_below_the_peak(real_traces: Path) -> None:
    for name in ("h100_qwen_stack_memory", "mi300x_qwen_stack_memory", "mi300x_compile_triton"):
        rows = roofline(linked_of(real_traces, name)).filter(pl.col("bound") == "compute")
        assert rows.height > 0
        assert (rows.get_column("roofline_share") < 1).all()
