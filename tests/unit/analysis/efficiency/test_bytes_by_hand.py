"""Bytes of ops as a careful reader computes them by hand: what must be read, and what must be written, once each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.efficiency.made import BF16, FLOAT, HALF, LONG, cost_of, tensor

FP8, COMPLEX = "c10::Float8_e4m3fn", "c10::complex<float>"
LIST = ("TensorList", [[4, 8], [2]], [[8, 1], [1]])

CASES: dict[str, tuple[list[Any], int | None]] = {
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
    "aten::cat": ([LIST, "0"], None),
    # Rows of 16 in a batch of 4 x 8: result, and mean and deviation of each row, as float.
    "aten::native_layer_norm": (
        [tensor(BF16, 4, 8, 16), "[16]", tensor(BF16, 16), tensor(BF16, 16), "1e-05"],
        2 * (512 + 16 + 16 + 512) + 4 * 2 * 32,
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


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_those_that_one_computes_by_hand(name: str) -> None:
    arguments, expected = CASES[name]
    assert cost_of(name, *arguments)[1] == expected


def test_a_tensor_whose_windows_overlap_is_read_once() -> None:
    """6 windows of 3 over 8 numbers, as `unfold` makes them."""
    windows = tensor(FLOAT, 6, 3, strides=[1, 1])
    assert cost_of("aten::neg", windows) == (18, 4 * (8 + 18))


def test_a_reduction_writes_what_is_left() -> None:
    """All numbers, a dimension with the positions of the greatest, and two tensors element by element."""
    x = tensor(FLOAT, 4, 8)
    assert cost_of("aten::max", x)[1] == 128 + 4
    assert cost_of("aten::max", x, "1", "False")[1] == 128 + 4 * 4 + 8 * 4
    assert cost_of("aten::max", x, tensor(FLOAT, 8))[1] == 128 + 32 + 128
    assert cost_of("aten::sum", x, None, None, None)[1] is None, "the dimensions were not recorded"


def test_a_tensor_without_elements_moves_nothing() -> None:
    assert cost_of("aten::add", tensor(FLOAT, 0, 8), tensor(FLOAT, 1, 8)) == (0, 32)


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
