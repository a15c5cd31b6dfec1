"""FLOPs and bytes of ops, by their formulas and as a careful reader counts them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import cases
from tests.planted.costs import BF16, FLOAT, HALF, LONG, NUMBER, called, cost_of, tensor
from tests.unit.linking.made import linked_of
from tracebraid.analyses import op_costs
from tracebraid.analysis.efficiency.product_formulas import causal_pairs

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
    ("aiter::mha_fwd", [*[tensor(BF16, 2, 8, 4, 16)] * 3, "0.", "0.25", "False"], 2 * 2 * 4 * 8 * 8 * 32),
    ("aiter::mha_varlen_fwd", [*ROWS, OFFSETS, OFFSETS, "8", "8"], 2 * 3 * 4 * 8 * 8 * 32),
    ("_C::rms_norm", [tensor(BF16, 4, 8), tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05"], 4 * 32),
    ("_C::fused_add_rms_norm", [tensor(BF16, 4, 8), tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05"], 5 * 32),
    ("sgl_kernel::gemma_rmsnorm", [tensor(BF16, 4, 8), tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05"], 4 * 32),
    ("aiter::rmsnorm2d_fwd", [tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05", "0"], 4 * 32),
    ("vllm::rocm_aiter_rms_norm", [tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05"], 4 * 32),
    ("aiter::rmsnorm2d_fwd_with_add", [*[tensor(BF16, 4, 8)] * 4, tensor(BF16, 8), "1e-05", "0"], 5 * 32),
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


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation", "pooled", "pooled_up"),
    [
        (5, 2, 2, 0, 1, 2, 3),
        (4, 2, 3, 1, 1, 2, 2),
        (4, 2, 4, 0, 1, 1, 1),
        (5, 2, 2, 1, 1, 3, 3),
        (8, 3, 2, 1, 2, 3, 4),
        (13, 3, 4, 1, 1, 4, 4),
    ],
)
def test_pooled_pictures_have_the_size_that_pytorch_gives_them(
    size: int, kernel: int, stride: int, padding: int, dilation: int, pooled: int, pooled_up: int
) -> None:
    picture, name = tensor(FLOAT, 1, 1, size, size), "aten::max_pool2d_with_indices"
    given = [f"[{each}, {each}]" for each in (kernel, stride, padding, dilation)]
    for up, expected in ((False, pooled), (True, pooled_up)):
        assert cost_of(name, picture, *given, str(up))[0] == expected**2 * kernel**2


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


FP8, COMPLEX = "c10::Float8_e4m3fn", "c10::complex<float>"
LISTED = ("TensorList", [[4, 8], [2]], [[8, 1], [1]])

BYTES: dict[str, tuple[list[Any], int | None]] = {
    # bf16: 4 x 8 and 8 x 16 in, 4 x 16 out, 2 bytes each.
    "aten::mm": ([tensor(BF16, 4, 8), tensor(BF16, 8, 16)], 2 * (32 + 128 + 64)),
    # The bias has 16 numbers, however often it is added.
    "aten::addmm": ([tensor(FLOAT, 16), tensor(FLOAT, 4, 8), tensor(FLOAT, 8, 16)], 4 * (16 + 32 + 128 + 64)),
    # fp8 in (1 byte), two scales, bf16 out (ScalarType 15).
    "aten::_scaled_mm": (
        [tensor(FP8, 16, 32), tensor(FP8, 32, 16), tensor(FLOAT), tensor(FLOAT), None, None, "15", "False"],
        512 + 512 + 4 + 4 + 2 * 256,
    ),
    # 16 rows of 64 int4 weights are 512 bytes, packed; scales and zeros of 2 groups for each row.
    "aten::_weight_int4pack_mm": (
        [tensor(BF16, 4, 64), tensor("int", 2, 2, 32, 1), "32", tensor(BF16, 2, 16, 2)],
        2 * 256 + 512 + 2 * 64 + 2 * 64,
    ),
    # The second operand is one row of 8, expanded to 4.
    "aten::add": ([tensor(FLOAT, 4, 8), tensor(FLOAT, 4, 8, strides=[0, 1]), "1"], 4 * (32 + 8 + 32)),
    # In place: both operands are read, the first is written.
    "aten::mul_": ([tensor(HALF, 4, 8), tensor(HALF, 4, 8)], 2 * 3 * 32),
    # A comparison writes a byte for each.
    "aten::gt": ([tensor(FLOAT, 10), "0"], 40 + 10),
    # A complex number of two floats is 8 bytes; the number beside the tensor is none.
    "aten::mul": ([tensor(COMPLEX, 3), tensor(COMPLEX, 3)], 8 * 9),
    "aten::view": ([tensor(FLOAT, 4, 8), "[32]"], 0),
    # To float (4 bytes) from bf16 (2 bytes).
    "aten::copy_": ([tensor(FLOAT, 5, 7), tensor(BF16, 5, 7), "False"], 4 * 35 + 2 * 35),
    # 6 indices of 8 bytes pick 6 rows of 16 halves, which are read and written; the table is not.
    "aten::embedding": ([tensor(HALF, 1000, 16), tensor(LONG, 2, 3)], 6 * 8 + 2 * (96 + 96)),
    # 9 x 9 with stride 2 and padding 1 gives 5 x 5; 2 groups.
    "aten::convolution": (
        [
            *(tensor(FLOAT, 2, 4, 9, 9), tensor(FLOAT, 8, 2, 3, 3), tensor(FLOAT, 8)),
            *("[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"),
        ],
        4 * (648 + 144 + 8 + 400),
    ),
    # Booleans are summed as long int.
    "aten::sum": ([tensor("bool", 4, 8), "[0]", "False", None], 32 + 8 * 8),
    # A fill only writes; what was there is not read.
    "aten::fill_": ([tensor(FLOAT, 7), "0"], 28),
    # Of packed int4 elements two share a byte.
    "aten::neg": ([tensor("c10::quint4x2", 5)], 3 + 3),
    # A Kineto trace does not say of what type the tensors of a list are.
    "aten::cat": ([LISTED, "0"], None),
    # Rows of 16 in a batch of 4 x 8: result, and mean and deviation of each row, as float.
    "aten::native_layer_norm": (
        [tensor(BF16, 4, 8, 16), "[16]", tensor(BF16, 16), tensor(BF16, 16), "1e-05"],
        2 * (512 + 16 + 16 + 512) + 4 * 2 * 32,
    ),
    # Pointwise in place: the large tensor is read and written, the row of 8 read.
    "triton_poi_fused_add_0": ([tensor(FLOAT, 4, 8), tensor(FLOAT, 8), "32"], 4 * (2 * 32 + 8)),
    # From one tensor into another: each once.
    "triton_poi_fused_relu_1": ([tensor(FLOAT, 4, 8), tensor(FLOAT, 4, 8), "32"], 4 * 2 * 32),
    # A reduction writes the small one.
    "triton_red_fused_sum_2": ([tensor(FLOAT, 4, 8), tensor(FLOAT, 4), "4", "8"], 4 * (32 + 4)),
    # The first is written only.
    "_C::rms_norm": ([tensor(BF16, 4, 8), tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05"], 2 * (32 + 8 + 32)),
    # Input and residual are read and written.
    "sgl_kernel::fused_add_rmsnorm": (
        [tensor(BF16, 4, 8), tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05", "False"],
        2 * (32 + 32 + 8 + 32 + 32),
    ),
    "aiter::rmsnorm2d_fwd": ([tensor(BF16, 4, 8), tensor(BF16, 8), "1e-05", "0"], 2 * (32 + 8 + 32)),
    "aiter::rmsnorm2d_fwd_with_add": (
        [*[tensor(BF16, 4, 8)] * 4, tensor(BF16, 8), "1e-05", "0"],
        2 * (32 + 32 + 8 + 32 + 32),
    ),
    # 10 rows of 6 floats become rows of 8 bytes with 8 behind them.
    "fbgemm::FloatToFP8RowwiseQuantized": ([tensor(FLOAT, 10, 6), "True"], 240 + 160),
    "fbgemm::FP8RowwiseQuantizedToFloat": ([tensor("unsigned char", 10, 16), "True"], 160 + 320),
    # Queries, keys, values in; output, and a float for each query and head.
    "aten::_scaled_dot_product_flash_attention": (
        [tensor(BF16, 2, 4, 8, 16), *[tensor(BF16, 2, 4, 6, 16)] * 2, "0.", "False"],
        2 * (1024 + 768 + 768 + 1024) + 4 * 64,
    ),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_those_that_one_computes_by_hand(name: str) -> None:
    arguments, expected = BYTES[name]
    assert cost_of(name, *arguments)[1] == expected


def test_a_reduction_writes_what_is_left() -> None:
    """All numbers, a dimension with the positions of the greatest, and two tensors element by element."""
    x = tensor(FLOAT, 4, 8)
    assert cost_of("aten::max", x)[1] == 128 + 4
    assert cost_of("aten::max", x, "1", "False")[1] == 128 + 4 * 4 + 8 * 4
    assert cost_of("aten::max", x, tensor(FLOAT, 8))[1] == 128 + 32 + 128
    assert cost_of("aten::sum", x, None, None, None)[1] is None, "the dimensions were not recorded"


@pytest.mark.parametrize(
    ("first", "second", "size"),
    [
        (tensor(BF16, 6), tensor(FLOAT, 6), 12 + 24 + 24),
        (tensor(BF16, 6), tensor("double"), 12 + 8 + 12),
        (tensor("int", 6), tensor("double"), 24 + 8 + 24),
        (tensor("bool", 6), tensor(LONG, 1), 6 + 8 + 48),
    ],
)
def test_the_result_has_the_type_to_which_the_operands_are_promoted(
    first: Any, second: Any, size: int
) -> None:
    assert cost_of("aten::add", first, second, "1")[1] == size


FP4 = "c10::Float4_e2m1fn_x2"
X, ROW, MEAN = tensor(FLOAT, 3, 5), tensor(FLOAT, 5), tensor(FLOAT, 3, 1)
READ = 4 * (15 + 15 + 5 + 3 + 3)
BAGS = [tensor(FLOAT, 2, 6), tensor(LONG, 5), tensor(LONG, 2), tensor(LONG, 0), *[tensor(LONG, 2)] * 2]
Q4 = tensor(FLOAT, 2, 4, 8, 16)
PAIRS4 = 2 * 2 * 4 * 8 * 8
SCALES = ("TensorList", [[1]], [[1]])
MASK = tensor(FLOAT, 8, 8)
SUMS = 4 * 2 * 4 * 8


def layer_norm_backward(mask: str | None) -> list[Any]:
    return [X, X, "[5]", MEAN, MEAN, ROW, ROW, mask]


LAYER, GROUP, BATCH = (f"aten::native_{kind}_norm_backward" for kind in ("layer", "group", "batch"))
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
FP4_PAIR = [tensor(FP4, 16, 32), tensor(FP4, 32, 16), tensor(FLOAT), tensor(FLOAT), None, None, "15", "False"]
SUM_OF = [tensor(FLOAT, 7), tensor(FLOAT, 3, 4), tensor(FLOAT, 4, 7)]


@cases(
    "name, arguments, flops, size",
    {
        "all": (LAYER, layer_norm_backward("[True, True, True]"), 13 * 15, READ + 4 * (15 + 5 + 5)),
        "not recorded": (LAYER, layer_norm_backward(None), 195, READ + 4 * 25),
        "frozen": (LAYER, layer_norm_backward("[True, False, False]"), 10 * 15, READ + 4 * 15),
        "no shift": (LAYER, layer_norm_backward("[True, True, False]"), 195, READ + 4 * 20),
        "frozen groups": (
            GROUP,
            [X, X, MEAN, MEAN, ROW, "3", "5", "1", "1", "[True, False, False]"],
            150,
            READ + 4 * 15,
        ),
        "frozen batch": (
            BATCH,
            [X, X, *[ROW] * 5, "True", "1e-05", "[True, False, False]"],
            150,
            4 * (15 + 15 + 5 + 5 + 5) + 4 * 15,
        ),
        "no shift at all": (
            "aten::_fused_rms_norm_backward",
            [X, X, "[5]", MEAN, ROW, "[True, True]"],
            195,
            4 * 38 + 4 * (15 + 5),
        ),
        "dense bags": (
            "aten::_embedding_bag_backward",
            [*BAGS, "10", "False", "0", "False", None],
            30,
            4 * 12 + 8 * 9 + 4 * 60,
        ),
        "sparse bags": (
            "aten::_embedding_bag_backward",
            [*BAGS, "10", "False", "0", "True", None],
            0,
            4 * 12 + 8 * 9 + 4 * 30,
        ),
        "mask": (FLASH, [*[Q4] * 3, "0.", "False", MASK, None], PAIRS4 * 32, 4 * (4 * 1024 + 64) + SUMS),
        "mask backward": (
            f"{FLASH}_backward",
            [*[Q4] * 5, tensor(FLOAT, 2, 4, 8), "0.", "False", MASK, None],
            PAIRS4 * 5 * 16,
            4 * (8 * 1024 + 64) + SUMS,
        ),
        "beta 0": ("aten::addmm", [*SUM_OF, "0.", "1"], 168, 4 * (12 + 28 + 21)),
        "beta 0.5": ("aten::addmm", [*SUM_OF, "0.5", "1"], 168, 4 * (7 + 12 + 28 + 21)),
        "two numbers in an element": (
            "aten::_scaled_mm",
            FP4_PAIR,
            2 * 16 * 64 * 16,
            512 + 512 + 8 + 2 * 256,
        ),
        "wide": ("aten::mm", [tensor(BF16, 4, 8), tensor(BF16, 8, 16), "6"], 1024, 2 * (32 + 128) + 4 * 64),
        "wide sum": (
            "aten::addmm",
            [tensor(BF16, 16), tensor(BF16, 4, 8), tensor(BF16, 8, 16), "6", "0", "1"],
            1024,
            2 * (32 + 128) + 4 * 64,
        ),
        "clamp by tensors": ("aten::clamp", [X, X, X], 30, 4 * 60),
        "clamp by numbers": ("aten::clamp", [X, NUMBER, NUMBER], 30, 4 * 30),
        "clamp by a tensor": ("aten::clamp_min", [tensor(BF16, 4), tensor(BF16, 4)], 4, 2 * 12),
        # 6 windows of 3 over 8 numbers, as `unfold` makes them.
        "windows that overlap are read once": (
            "aten::neg",
            [tensor(FLOAT, 6, 3, strides=[1, 1])],
            18,
            4 * (8 + 18),
        ),
        "no elements": ("aten::add", [tensor(FLOAT, 0, 8), tensor(FLOAT, 1, 8)], 0, 32),
        "lists of scales": (
            "aten::_scaled_mm_v2",
            [
                tensor(FP8, 16, 32),
                tensor(FP8, 32, 16),
                SCALES,
                "[0]",
                "[0]",
                SCALES,
                "[0]",
                "[0]",
                None,
                "15",
            ],
            2 * 16 * 32 * 16,
            None,
        ),
        # Of grouped products each row is multiplied once.
        "grouped products": (
            "aten::_scaled_grouped_mm_v2",
            [
                tensor(FP4, 12, 32),
                tensor(FP4, 3, 32, 16),
                SCALES,
                "[0]",
                "[0]",
                SCALES,
                "[0]",
                "[0]",
                tensor("int", 3),
            ],
            2 * 12 * 64 * 16,
            None,
        ),
        "attention of other devices": (
            "aten::_scaled_dot_product_fused_attention_overrideable_backward",
            [Q4, Q4, Q4, Q4, None, "[True]", Q4],
            PAIRS4 * 5 * 16,
            None,
        ),
    },
)
def test_arguments_count(name: str, arguments: list[Any], flops: int, size: int | None) -> None:
    found = cost_of(name, *arguments)
    assert found == (flops, size) or (size is None and found[0] == flops)
