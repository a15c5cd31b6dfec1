"""Ops whose arguments change what they compute and move, as a careful reader counts them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.efficiency.made import BF16, FLOAT, LONG, NUMBER, cost_of, tensor

FP4 = "c10::Float4_e2m1fn_x2"
X, ROW, MEAN = tensor(FLOAT, 3, 5), tensor(FLOAT, 5), tensor(FLOAT, 3, 1)
READ = 4 * (15 + 15 + 5 + 3 + 3)
BAGS = [
    tensor(FLOAT, 2, 6),
    tensor(LONG, 5),
    tensor(LONG, 2),
    tensor(LONG, 0),
    tensor(LONG, 2),
    tensor(LONG, 2),
]
Q = tensor(FLOAT, 2, 4, 8, 16)
MASK = tensor(FLOAT, 8, 8)
SUMS = 4 * 2 * 4 * 8


def layer_norm_backward(mask: str | None) -> list[Any]:
    return [X, X, "[5]", MEAN, MEAN, ROW, ROW, mask]


CASES: list[tuple[str, str, list[Any], int, int]] = [
    (
        "all",
        "aten::native_layer_norm_backward",
        layer_norm_backward("[True, True, True]"),
        13 * 15,
        READ + 4 * (15 + 5 + 5),
    ),
    ("not recorded", "aten::native_layer_norm_backward", layer_norm_backward(None), 195, READ + 4 * 25),
    (
        "frozen",
        "aten::native_layer_norm_backward",
        layer_norm_backward("[True, False, False]"),
        10 * 15,
        READ + 4 * 15,
    ),
    (
        "no shift",
        "aten::native_layer_norm_backward",
        layer_norm_backward("[True, True, False]"),
        195,
        READ + 4 * 20,
    ),
    (
        "frozen groups",
        "aten::native_group_norm_backward",
        [X, X, MEAN, MEAN, ROW, "3", "5", "1", "1", "[True, False, False]"],
        150,
        READ + 4 * 15,
    ),
    (
        "frozen batch",
        "aten::native_batch_norm_backward",
        [X, X, ROW, ROW, ROW, ROW, ROW, "True", "1e-05", "[True, False, False]"],
        150,
        4 * (15 + 15 + 5 + 5 + 5) + 4 * 15,
    ),
    (
        "no shift at all",
        "aten::_fused_rms_norm_backward",
        [X, X, "[5]", MEAN, ROW, "[True, True]"],
        195,
        4 * (15 + 15 + 3 + 5) + 4 * (15 + 5),
    ),
    (
        "dense",
        "aten::_embedding_bag_backward",
        [*BAGS, "10", "False", "0", "False", None],
        30,
        4 * 12 + 8 * (5 + 2 + 2) + 4 * 60,
    ),
    (
        "sparse",
        "aten::_embedding_bag_backward",
        [*BAGS, "10", "False", "0", "True", None],
        0,
        4 * 12 + 8 * (5 + 2 + 2) + 4 * 30,
    ),
    (
        "mask",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        [Q, Q, Q, "0.", "False", MASK, None],
        2 * 2 * 4 * 8 * 8 * 32,
        4 * (4 * 1024 + 64) + SUMS,
    ),
    (
        "mask backward",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        [Q, Q, Q, Q, Q, tensor(FLOAT, 2, 4, 8), "0.", "False", MASK, None],
        2 * 2 * 4 * 8 * 8 * 5 * 16,
        4 * (8 * 1024 + 64) + SUMS,
    ),
    (
        "beta 0",
        "aten::addmm",
        [tensor(FLOAT, 7), tensor(FLOAT, 3, 4), tensor(FLOAT, 4, 7), "0.", "1"],
        168,
        4 * (12 + 28 + 21),
    ),
    (
        "beta 0.5",
        "aten::addmm",
        [tensor(FLOAT, 7), tensor(FLOAT, 3, 4), tensor(FLOAT, 4, 7), "0.5", "1"],
        168,
        4 * (7 + 12 + 28 + 21),
    ),
    (
        "two numbers in an element",
        "aten::_scaled_mm",
        [tensor(FP4, 16, 32), tensor(FP4, 32, 16), tensor(FLOAT), tensor(FLOAT), None, None, "15", "False"],
        2 * 16 * 64 * 16,
        512 + 512 + 8 + 2 * 256,
    ),
    ("wide", "aten::mm", [tensor(BF16, 4, 8), tensor(BF16, 8, 16), "6"], 1024, 2 * (32 + 128) + 4 * 64),
    (
        "wide sum",
        "aten::addmm",
        [tensor(BF16, 16), tensor(BF16, 4, 8), tensor(BF16, 8, 16), "6", "0", "1"],
        1024,
        2 * (32 + 128) + 4 * 64,
    ),
    ("tensors", "aten::clamp", [X, X, X], 30, 4 * 60),
    ("numbers", "aten::clamp", [X, NUMBER, NUMBER], 30, 4 * 30),
    ("a tensor", "aten::clamp_min", [tensor(BF16, 4), tensor(BF16, 4)], 4, 2 * 12),
]


@pytest.mark.parametrize(
    ("name", "arguments", "flops", "size"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_arguments_count(name: str, arguments: list[Any], flops: int, size: int) -> None:
    assert cost_of(name, *arguments) == (flops, size)


def test_a_product_with_lists_of_scales_computes_as_much_as_with_one_scale() -> None:
    scales = ("TensorList", [[1]], [[1]])
    fp8 = "c10::Float8_e4m3fn"
    arguments: list[Any] = [
        tensor(fp8, 16, 32),
        tensor(fp8, 32, 16),
        scales,
        "[0]",
        "[0]",
        scales,
        "[0]",
        "[0]",
        None,
        "15",
    ]
    assert cost_of("aten::_scaled_mm_v2", *arguments) == (2 * 16 * 32 * 16, None)


def test_grouped_products_with_lists_of_scales_multiply_each_row_once() -> None:
    scales = ("TensorList", [[1]], [[1]])
    factors = [tensor(FP4, 12, 32), tensor(FP4, 3, 32, 16)]
    arguments: list[Any] = [*factors, scales, "[0]", "[0]", scales, "[0]", "[0]", tensor("int", 3)]
    assert cost_of("aten::_scaled_grouped_mm_v2", *arguments)[0] == 2 * 12 * 64 * 16


def test_attention_of_other_devices_computes_backward_as_that_of_the_known_ones() -> None:
    name = "aten::_scaled_dot_product_fused_attention_overrideable_backward"
    assert cost_of(name, Q, Q, Q, Q, None, "[True]", Q)[0] == 2 * 2 * 4 * 8 * 8 * 5 * 16
