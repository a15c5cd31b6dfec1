"""FLOPs of ops by their formulas, against PyTorch's own functions where it has them, else written out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.efficiency.made import BF16, FLOAT, LONG, called, cost_of, tensor
from tests.unit.linking.made import linked_of
from tracebraid.analysis.efficiency.formulas.attention import causal_pairs
from tracebraid.analysis.efficiency.op_costs import op_costs

Q, KV = tensor(BF16, 2, 4, 8, 16), tensor(BF16, 2, 2, 6, 16)
ROWS = [tensor(BF16, 24, 4, 16), tensor(BF16, 24, 2, 16), tensor(BF16, 24, 2, 16)]
OFFSETS = tensor("int", 4)
PLAIN = 2 * 2 * 4 * 8 * 6 * (16 + 16)
PICTURE, WEIGHT, GRADIENT = tensor(FLOAT, 2, 4, 9, 9), tensor(FLOAT, 8, 2, 3, 3), tensor(FLOAT, 2, 8, 5, 5)
MACS = 2 * 25 * 8 * 2 * 9

CASES: list[tuple[str, list[Any], int]] = [
    ("aten::bmm", [tensor(FLOAT, 3, 4, 5), tensor(FLOAT, 3, 5, 6)], 2 * 3 * 4 * 5 * 6),
    ("aten::baddbmm", [tensor(FLOAT, 6), tensor(FLOAT, 3, 4, 5), tensor(FLOAT, 3, 5, 6)], 2 * 3 * 4 * 5 * 6),
    (
        "aten::addbmm",
        [tensor(FLOAT, 4, 6), tensor(FLOAT, 3, 4, 5), tensor(FLOAT, 3, 5, 6)],
        2 * 3 * 4 * 5 * 6,
    ),
    ("aten::matmul", [tensor(FLOAT, 7, 1, 4, 5), tensor(FLOAT, 3, 5, 6)], 2 * 7 * 3 * 4 * 5 * 6),
    ("aten::matmul", [tensor(FLOAT, 5), tensor(FLOAT, 5, 6)], 2 * 5 * 6),
    ("aten::mv", [tensor(FLOAT, 4, 5), tensor(FLOAT, 5)], 2 * 4 * 5),
    ("aten::dot", [tensor(FLOAT, 5), tensor(FLOAT, 5)], 2 * 5),
    ("aten::linear", [tensor(FLOAT, 2, 3, 5), tensor(FLOAT, 7, 5), tensor(FLOAT, 7)], 2 * 2 * 3 * 5 * 7),
    ("aten::_int_mm", [tensor("signed char", 32, 16), tensor("signed char", 16, 8)], 2 * 32 * 16 * 8),
    (
        "aten::_weight_int4pack_mm_for_cpu",
        [tensor(BF16, 4, 64), tensor("unsigned char", 16, 32)],
        2 * 4 * 16 * 64,
    ),
    ("aten::_grouped_mm", [tensor(BF16, 10, 8), tensor(BF16, 3, 8, 6), tensor("int", 3)], 2 * 10 * 8 * 6),
    ("aten::_scaled_dot_product_flash_attention", [Q, KV, KV, "0.", "False"], PLAIN),
    ("aten::_scaled_dot_product_efficient_attention", [Q, KV, KV, None, "True", "0.", "False"], PLAIN),
    ("aten::_scaled_dot_product_cudnn_attention", [Q, KV, KV, None, "True", "0.", "True"], PLAIN),
    ("aten::_scaled_dot_product_flash_attention_backward", [Q, Q, KV, KV], 2 * 2 * 4 * 8 * 6 * 5 * 16),
    ("aten::_flash_attention_forward", [*ROWS, OFFSETS, OFFSETS, "8", "8"], 2 * 3 * 4 * 8 * 8 * 32),
    ("flash_attn::_flash_attn_varlen_forward", [*ROWS, OFFSETS, OFFSETS, "8", "8"], 2 * 3 * 4 * 8 * 8 * 32),
    (
        "aten::convolution_backward",
        [
            GRADIENT,
            PICTURE,
            WEIGHT,
            "[8]",
            "[2, 2]",
            "[1, 1]",
            "[1, 1]",
            "False",
            "[0, 0]",
            "2",
            "[False, True, True]",
        ],
        2 * MACS,
    ),
    ("aten::convolution_backward", [GRADIENT, PICTURE, WEIGHT], 4 * MACS),
    ("aten::cudnn_convolution", [PICTURE, WEIGHT, "[1, 1]", "[2, 2]", "[1, 1]", "2"], 2 * MACS),
    ("aten::miopen_convolution", [PICTURE, WEIGHT, None, "[1, 1]", "[2, 2]", "[1, 1]", "2"], 2 * MACS),
    ("aten::mkldnn_convolution", [PICTURE, WEIGHT, None, "[1, 1]", "[2, 2]", "[1, 1]", "2"], 2 * MACS),
    ("aten::mean", [tensor(FLOAT, 4, 8), "[-1]", "False", None], 32 + 4),
    ("aten::mean", [tensor(FLOAT, 4, 8), "6"], 32 + 1),
    ("aten::linalg_vector_norm", [tensor(FLOAT, 4, 8), "2", None, "False", None], 64 + 1),
    ("aten::max", [tensor(FLOAT, 4, 8), "1", "False"], 32),
    ("aten::max", [tensor(FLOAT, 4, 8), tensor(FLOAT, 8)], 32),
    ("aten::_softmax", [tensor(FLOAT, 4, 8), "1", "False"], 5 * 32),
    ("aten::_embedding_bag", [tensor(FLOAT, 9, 4), tensor(LONG, 6), tensor(LONG, 2)], 24),
    ("aten::nll_loss_forward", [tensor(FLOAT, 5, 3), tensor(LONG, 5), None, "1", "-100"], 10),
    (
        "aten::max_pool2d_with_indices",
        [tensor(FLOAT, 1, 2, 8, 8), *["[2, 2]", "[]", "[0, 0]", "[1, 1]", "False"]],
        128,
    ),
    ("aten::_foreach_addcmul_", [("TensorList", [[4, 8], [2]], [[8, 1], [1]])] * 3, 3 * 34),
    ("aten::_fused_adamw_", [("TensorList", [[4, 8], [2]], [[8, 1], [1]])] * 4, 14 * 34),
]


@pytest.mark.parametrize(
    ("name", "arguments", "flops"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_flops_are_those_of_the_formula(name: str, arguments: list[Any], flops: int) -> None:
    assert cost_of(name, *arguments)[0] == flops


def test_attention_is_counted_as_pytorch_counts_it() -> None:
    counter = pytest.importorskip("torch.utils.flop_counter")
    q, k, v = (2, 4, 8, 16), (2, 2, 6, 16), (2, 2, 6, 16)
    assert counter.sdpa_flop_count(q, k, v) == PLAIN
    assert counter.sdpa_backward_flop_count(q, q, (2, 4, 6, 16), (2, 4, 6, 16)) == 2 * 2 * 4 * 8 * 6 * 5 * 16


@pytest.mark.parametrize("queries", range(6))
@pytest.mark.parametrize("keys", range(6))
@pytest.mark.parametrize("ends_aligned", [False, True])
def test_pairs_that_a_causal_mask_leaves_are_those_that_are_counted(
    queries: int, keys: int, ends_aligned: bool
) -> None:
    offset = keys - queries if ends_aligned else 0
    expected = sum(key <= query + offset for query in range(queries) for key in range(keys))
    assert causal_pairs(queries, keys, ends_aligned) == expected


def test_causal_flops_are_given_beside_the_others() -> None:
    square = tensor(BF16, 1, 1, 4, 8)
    name = "aten::_scaled_dot_product_flash_attention"
    costs = op_costs(linked_of([called(name, square, square, square, "0.", "True")]))
    assert costs.select("flops", "causal_flops").row(0) == (2 * 16 * 16, 2 * 10 * 16)


DAMAGED: list[tuple[str, list[Any]]] = [
    ("aten::mm", [tensor(FLOAT, 4, 8)]),
    ("aten::mm", [tensor(FLOAT, 4, 8), tensor(FLOAT, 9, 2)]),
    ("aten::mm", [(FLOAT, [-4, 8], [8, 1]), tensor(FLOAT, 8, 2)]),
    ("aten::mm", [(FLOAT, ["s0", 8], None), tensor(FLOAT, 8, 2)]),
    ("aten::mm", [(FLOAT, None, None), tensor(FLOAT, 8, 2)]),
    ("aten::mm", [tensor(FLOAT, 10**12, 10**12), tensor(FLOAT, 10**12, 10**12)]),
    ("aten::add", [tensor(FLOAT, 3), tensor(FLOAT, 4)]),
    ("aten::convolution", [PICTURE, WEIGHT]),
    ("aten::convolution", [tensor(FLOAT, 4), WEIGHT, None, "[2, 2]", "x", "[1, 1]", "False"]),
    ("aten::sum", [tensor(FLOAT, 4, 8), "[7]", "False", None]),
    ("aten::_flash_attention_forward", [Q, tensor(BF16)]),
    ("aten::max_pool2d_with_indices", [tensor(FLOAT, 4), "[2, 2]", "[]", "[0, 0]", "[1, 1]", "False"]),
    ("aten::embedding", [tensor(FLOAT, 4), tensor(LONG, 2)]),
]


@pytest.mark.parametrize(
    ("name", "arguments"), DAMAGED, ids=[f"{i}-{case[0]}" for i, case in enumerate(DAMAGED)]
)
def test_arguments_that_cannot_be_make_a_cost_unknown(name: str, arguments: list[Any]) -> None:
    assert cost_of(name, *arguments)[0] is None


def test_a_trace_of_such_ops_is_answered_with_what_is_known() -> None:
    events = [called(name, *arguments, ts=20.0 * i) for i, (name, arguments) in enumerate(DAMAGED)]
    costs = op_costs(linked_of([*events, called("aten::neg", tensor(FLOAT, 3), ts=1000)]))
    assert costs.get_column("count").sum() == len(DAMAGED) + 1
    assert costs.filter(costs.get_column("flops").is_not_null()).get_column("name").to_list() == ["aten::neg"]
