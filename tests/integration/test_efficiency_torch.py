"""FLOPs and recomputation of models that are captured here, against PyTorch's own counter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("torch")

from tests.integration.models.capturing import captured, torch_flops
from tests.integration.models.small import Step, recommender_step, resnet_step, transformer_step
from tracebraid.analysis.efficiency.counted_ops import counted_ops, recomputation
from tracebraid.analysis.efficiency.roofline import mfu, op_costs
from tracebraid.model.linked_trace import LinkedTrace

pytestmark = pytest.mark.torch

MATRIX_FAMILIES = ["matmul", "convolution", "attention"]
NOT_IN_TORCH = [
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
]
"""Ops that we count and FlopCounterMode does not know."""


def our_flops(linked: LinkedTrace) -> dict[str, int]:
    costs = op_costs(linked).filter(
        pl.col("family").is_in(MATRIX_FAMILIES) & ~pl.col("name").is_in(NOT_IN_TORCH) & (pl.col("flops") > 0)
    )
    return dict(costs.group_by("name").agg(pl.col("flops").sum()).iter_rows())


def unknown(linked: LinkedTrace) -> list[str]:
    ops = counted_ops(linked).filter(pl.col("has_rule") & ~pl.col("is_composite") & pl.col("flops").is_null())
    return sorted(set(ops.get_column("name").to_list()))


@pytest.mark.parametrize("make", [transformer_step, resnet_step, recommender_step], ids=lambda f: f.__name__)
def test_flops_are_those_of_flop_counter_mode_forward_and_backward(
    make: Callable[[], Step], tmp_path: Path
) -> None:
    expected = torch_flops(make())
    linked = captured(make(), tmp_path)
    assert len(expected) > 1
    assert our_flops(linked) == expected
    assert set(unknown(linked)) <= {"aten::index"}


def test_a_weight_gradient_of_a_grouped_convolution_takes_as_many_flops_as_its_forward_pass(
    tmp_path: Path,
) -> None:
    """FlopCounterMode counts it `groups` times."""
    import torch

    def step() -> None:
        x = torch.randn(2, 4, 9, 9, requires_grad=True)
        torch.nn.functional.conv2d(x, weight, groups=2, padding=1).sum().backward()

    weight = torch.randn(8, 2, 3, 3, requires_grad=True)
    expected, ours = torch_flops(step), our_flops(captured(step, tmp_path))
    forward = 2 * 2 * 9 * 9 * 8 * 2 * 3 * 3
    assert (expected["aten::convolution"], expected["aten::convolution_backward"]) == (forward, 3 * forward)
    assert (ours["aten::convolution"], ours["aten::convolution_backward"]) == (forward, 2 * forward)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_computes_again_is_in_hardware_flops_alone(reentrant: bool, tmp_path: Path) -> None:
    plain = captured(transformer_step(), tmp_path)
    assert recomputation(plain).is_empty()
    linked = captured(transformer_step(reentrant), tmp_path)
    model, hardware = mfu(linked.with_annotation("step")).select("model_flops", "hardware_flops").row(1)
    assert model == mfu(plain.with_annotation("step")).get_column("model_flops").to_list()[1]
    again = recomputation(linked)
    matrices = again.filter(pl.col("family").is_in(MATRIX_FAMILIES)).get_column("flops").sum()
    backward = op_costs(linked).filter(pl.col("name").str.contains("attention_for_cpu_backward"))
    anew = backward.get_column("flops").sum() // 5
    assert matrices == hardware - model - anew > 0
    assert anew > 0, "the scores, one of five products of equal size"
    assert our_flops(linked) == torch_flops(transformer_step(reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
def test_each_op_of_a_checkpointed_block_runs_again_once(reentrant: bool, tmp_path: Path) -> None:
    linked = captured(transformer_step(reentrant), tmp_path)
    counts = dict(recomputation(linked).select("name", "count").iter_rows())
    assert counts["aten::addmm"] == 2 * 3, "inner, up and down of two blocks"
    assert counts["aten::native_layer_norm"] == 2 * 2
    assert counts["aten::_scaled_dot_product_flash_attention_for_cpu"] == 1
    assert not any("backward" in name.lower() for name in counts)
    assert (recomputation(linked).get_column("host_ns") > 0).all()


def test_a_second_derivative_is_no_recomputation(tmp_path: Path) -> None:
    import torch

    model, x = (
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)),
        torch.ones(3, 4),
    )

    def step() -> None:
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.square().sum().backward()

    linked = captured(step, tmp_path)
    assert our_flops(linked)["aten::addmm"] == 2 * 3 * (4 * 8 + 8 * 1)
    assert recomputation(linked).is_empty()


def test_the_device_time_of_a_capture_on_the_cpu_is_the_host_self_time_of_its_ops(tmp_path: Path) -> None:
    linked = captured(recommender_step(), tmp_path)
    costs = op_costs(linked)
    is_op = linked.timeline.events.filter(pl.col("category").cast(pl.String) == "cpu_op")
    own = linked.host_tree.join(is_op, on="event_id", how="semi").get_column("op_exclusive_ns").sum()
    assert costs.get_column("device_ns").sum() == own
    products = costs.filter((pl.col("name") == "aten::bmm") & (pl.col("device_ns") > 0))
    assert products.height > 0
    assert products.get_column("achieved_flops_per_s").null_count() == 0
