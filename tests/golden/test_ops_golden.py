"""Ops, annotations, modules and Python functions of real traces: parts add up, and HTA's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.golden.linked import pair
from tests.golden.test_analyze_golden import FILES, linked_file
from tests.golden.test_analyze_golden import linked_of as linked_kineto
from tests.unit.linking.made import row_of
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.device import device_events
from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.efficiency.roofline import mfu, op_costs, roofline
from tracebraid.analysis.host.host_trees import call_sites
from tracebraid.analysis.ops.annotations import annotation_kernels, user_annotations
from tracebraid.analysis.ops.modules import modules
from tracebraid.analysis.ops.op_times import python_frames
from tracebraid.analysis.ops.ops import OpKey, ops
from tracebraid.model.analysis import Family
from tracebraid.model.answers.ops import ModuleSource
from tracebraid.model.linked_trace import LinkedTrace

ANALYSES = [found for found in all_analyses() if found.family is Family.OPS]

ALL_FILES = {
    **FILES,
    **{f"dlrm:{rank}": f"pairs/dlrm_v100_8rank/kineto_trace_{rank}.json.gz" for rank in range(4)},
}
QWEN = ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory"]
ROUNDING_NS = 2_000
"""HTA rounds start and duration of an event to whole µs."""


def linked_of(folder: Path, name: str) -> LinkedTrace:
    return linked_file(folder / ALL_FILES[name])


def hta_annotations(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    table = pl.read_csv(folder / "expected/hta" / name / "gpu_user_annotation_breakdown.csv")
    return {row["name"]: row for row in table.to_dicts()}


@pytest.mark.parametrize("name", ALL_FILES)
def test_the_parts_of_every_answer_add_up(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    host = linked.host_tree.get_column("exclusive_ns").sum()
    ops_alone = linked.host_tree.get_column("op_exclusive_ns").sum()
    events = device_events(linked)
    device = events.get_column("dur_ns").sum()
    of_ops = events.filter(pl.col("op_event").is_not_null()).get_column("dur_ns").sum()
    for per_step in (False, True):
        for keys in [OpKey.NAME, OpKey.CALL_SITE, OpKey.MODULE, OpKey.ANNOTATION]:
            found = ops(linked, per_step=per_step, by=keys.value)
            assert (found["host_self_ns"].sum(), found["device_self_ns"].sum()) == (ops_alone, of_ops)
        assert annotation_kernels(linked, per_step=per_step)["total_ns"].sum() == device
        tree = modules(linked, per_step=per_step)
        if tree.height:
            parts = tree.select(pl.col("^(host|device)_(forward|backward)_self_ns$").sum()).row(0)
            assert (parts[0] + parts[1], parts[2] + parts[3]) == (host, device)
            roots = tree.filter(pl.col("depth").fill_null(0) == 0)
            assert (
                roots.group_by("step")
                .agg(pl.col("share").sum())
                .get_column("share")
                .round(9)
                .is_in([0.0, 1.0])
                .all()
            )
        frames = python_frames(linked, per_step=per_step)
        if frames.height:
            assert (frames["host_self_ns"].sum(), frames["device_self_ns"].sum()) == (host, device)


@pytest.mark.parametrize("name", ALL_FILES)
def test_answers_hold_no_nan_and_self_is_no_more_than_total(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    for analysis in ANALYSES:
        for per_step in (False, True):
            found = analysis.answer(linked, per_step=per_step)
            assert found.schema == pl.Schema(analysis.table.polars_schema())
            floats = found.select(pl.col(pl.Float64).is_nan().any())
            assert not any(floats.row(0) if floats.height else ())
    found = user_annotations(linked)
    assert (found["device_self_ns"] <= found["device_total_ns"]).all()
    assert (found["device_busy_ns"] <= found["device_total_ns"]).all()


@pytest.mark.parametrize("name", QWEN)
def test_modules_of_a_language_model(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    found = {row["path"]: row for row in modules(linked).to_dicts()}
    layers = [path for path in found if path and path.count("/") == 1 and "Qwen2DecoderLayer" in path]
    assert len(layers) == 24
    layer = "Qwen2Model_0/Qwen2DecoderLayer_23"
    assert [path.removeprefix(f"{layer}/") for path in found if path and path.startswith(f"{layer}/")] == [
        "Qwen2RMSNorm_46",
        "Qwen2Attention_23",
        *(f"Qwen2Attention_23/Linear_{number}" for number in range(161, 165)),
        "Qwen2RMSNorm_47",
        "Qwen2MLP_23",
        "Qwen2MLP_23/Linear_165",
        "Qwen2MLP_23/SiLU_23",
        "Qwen2MLP_23/Linear_166",
        "Qwen2MLP_23/Linear_167",
    ]
    assert {row["source"] for row in found.values()} == {ModuleSource.MODULE_EVENTS.value}
    call = linked.timeline.events.filter(pl.col("name").cast(pl.String) == "nn.Module: Qwen2Model_0")
    assert found["Qwen2Model_0"]["host_forward_total_ns"] == call.item(0, "dur_ns")
    assert sum(row["calls"] or 0 for row in found.values()) == 316


@pytest.mark.parametrize("name", QWEN)
def test_call_sites_of_a_language_model_are_lines_of_its_model(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    found = linked.timeline.host_ops.join(call_sites(linked), on="event_id").get_column("call_site")
    by_site = ops(linked, by="call_site").to_dicts()
    assert by_site[0]["call_site"].startswith("transformers/models/qwen2/modeling_qwen2.py(")
    assert not found.drop_nulls().str.starts_with("torch/").any()


def test_the_ranges_of_annotations_are_htas(real_traces: Path) -> None:
    name = "mi250_minitoy_train"
    found = {row["name"]: row for row in user_annotations(linked_of(real_traces, name)).to_dicts()}
    for annotation, expected in hta_annotations(real_traces, name).items():
        assert abs(found[annotation]["device_range_ns"] - 1000 * expected["sum (us)"]) <= ROUNDING_NS


def test_hta_leaves_the_ranges_of_the_last_step_out(real_traces: Path) -> None:
    name = "a100_ddp_nccl_rank0of2"
    linked = linked_of(real_traces, name)
    by_step = user_annotations(linked, per_step=True).filter(pl.col("device_ranges") > 0)
    first = by_step.filter(pl.col("step") != by_step.get_column("step").max())
    ours = {
        row["name"]: row
        for row in first.group_by("name").agg(pl.col("device_ranges", "device_range_ns").sum()).to_dicts()
    }
    expected = hta_annotations(real_traces, name)
    assert set(ours) == set(expected)
    for annotation, row in expected.items():
        found = ours[annotation]
        assert abs(found["device_range_ns"] - 1000 * row["sum (us)"]) <= ROUNDING_NS * found["device_ranges"]
    whole = {row["name"]: row for row in user_annotations(linked).to_dicts()}
    assert {
        whole[annotation]["device_ranges"] - ours[annotation]["device_ranges"] for annotation in ours
    } == {1, 2, 5}


def test_a_backward_annotation_holds_what_autograds_thread_launched_where_the_profilers_range_does_not(
    real_traces: Path,
) -> None:
    linked = linked_of(real_traces, "a100_ddp_nccl_rank0of2")
    row = next(row for row in user_annotations(linked).to_dicts() if row["name"] == "## backward ##")
    assert row["device_busy_ns"] > 50 * row["device_range_ns"]
    whole: int = device_events(linked).get_column("dur_ns").to_numpy().sum()
    assert row["device_total_ns"] > 0.7 * whole


# --- Efficiency on real traces: figures that can be computed from the file by hand, and what mu ------


EFFICIENCY_ANALYSES = [found for found in all_analyses() if found.family is Family.EFFICIENCY]


@pytest.mark.parametrize("name", FILES)
def test_every_analysis_answers_with_its_table_and_without_nan(real_traces: Path, name: str) -> None:
    linked = linked_kineto(real_traces, name)
    for analysis in EFFICIENCY_ANALYSES:
        frame = analysis.answer(linked)
        assert dict(frame.schema) == analysis.table.polars_schema()
        numbers = frame.select(pl.col(pl.Float64))
        assert not any(column.is_nan().any() or column.is_infinite().any() for column in numbers)
        assert frame.equals(analysis.answer(linked)), "rows come in one order"


@pytest.mark.parametrize("name", FILES)
def test_device_time_of_rows_is_that_of_all_that_ops_launched(real_traces: Path, name: str) -> None:
    linked = linked_kineto(real_traces, name)
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
    rows = roofline(linked_kineto(real_traces, name), peak_flops=1e14, peak_bandwidth=1e12)
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
    assert known_share(linked_kineto(real_traces, name)) >= least


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
    linked = linked_kineto(real_traces, "h100_qwen_stack_memory")
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
        assert roofline(linked_kineto(real_traces, name)).height > 0
    for row in mfu(linked_kineto(real_traces, "mi300x_compile_triton")).iter_rows(named=True):
        assert row["peak_flops_per_s"] == 1307.4e12
        assert 0 < row["mfu"] == row["hfu"] < 1
    assert roofline(linked_kineto(real_traces, "mi250_minitoy_train")).is_empty(), (
        "a device that is only `Radeon`"
    )


def test_products_stay_below_the_peak(real_traces: Path) -> None:
    for name in ("h100_qwen_stack_memory", "mi300x_qwen_stack_memory", "mi300x_compile_triton"):
        rows = roofline(linked_kineto(real_traces, name)).filter(pl.col("bound") == "compute")
        assert rows.height > 0
        assert (rows.get_column("roofline_share") < 1).all()
