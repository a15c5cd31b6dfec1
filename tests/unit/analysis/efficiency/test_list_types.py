"""Types of lists from the names of kernels, as PyTorch has them on CUDA and ROCm."""

from __future__ import annotations

import pytest

from tests.builders import Json
from tests.unit.analysis.efficiency.made import called
from tests.unit.analysis.efficiency.test_counted_ops import launched
from tests.unit.linking.made import linked_of
from tracebraid.analysis.efficiency.op_costs import op_costs

AT = "at::native::(anonymous namespace)::"
APPLY = f"void {AT}multi_tensor_apply_kernel<{AT}TensorListMetadata<2>, {AT}"
LIST = ("TensorList", [[4, 8], [2]], [[8, 1], [1]])


def bytes_of(name: str, kernels: list[str]) -> int | None:
    op_event = called(name, LIST, LIST) if "foreach" in name else called(name, LIST, "0")
    events: list[Json] = [op_event]
    for number, kernel_name in enumerate(kernels):
        events += launched(op_event, kernel_name, number + 1)[1:]
    costs = op_costs(linked_of(events))
    assert costs.height == 1
    found: int | None = costs.get_column("bytes").to_list()[0]
    return found


@pytest.mark.parametrize(
    ("kernels", "size"),
    [
        ([f"{APPLY}BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(int)"], 4),
        ([f"{APPLY}BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, std::plus<float>, float>(int)"], 2),
        ([f"{APPLY}UnaryOpFunctor<double, 1, 1, 0>, std::plus<double> >(int)"] * 2, 8),
        ([f"{APPLY}CopyFunctor<int, long, 2, 1, 1>, {AT}Copy<int, long> >(int)"], None),
        (
            [
                f"{APPLY}UnaryOpFunctor<long, 1, 1, 0>, x>(int)",
                f"{APPLY}UnaryOpFunctor<int, 1, 1, 0>, x>(int)",
            ],
            None,
        ),
        ([f"{APPLY}UnaryOpFunctor<long, 1, 1, 0>, x>(int)", "elementwise"], None),
        ([], None),
    ],
)
def test_a_list_has_the_type_that_all_kernels_name(kernels: list[str], size: int | None) -> None:
    if kernels:
        assert bytes_of("aten::_foreach_add_", kernels) == (None if size is None else 3 * 34 * size)
    else:
        linked = linked_of([called("aten::_foreach_add_", LIST, LIST)])
        assert op_costs(linked).get_column("bytes").to_list() == [None]


@pytest.mark.parametrize(
    ("element", "size"),
    [(f"{AT}OpaqueType<2u>", 2), (f"{AT}OpaqueType<8u>", 8), ("float", 4), ("c10::Half", 2)],
)
@pytest.mark.parametrize("kernel_name", ["CatArrayBatchedCopy", "CatArrayBatchedCopy_aligned16_contig"])
def test_kernels_of_a_concatenation_name_the_size_of_an_element(
    kernel_name: str, element: str, size: int
) -> None:
    assert (
        bytes_of("aten::cat", [f"void {AT}{kernel_name}<{element}, unsigned int, 1, 128, 1>(int)"])
        == 2 * 34 * size
    )
