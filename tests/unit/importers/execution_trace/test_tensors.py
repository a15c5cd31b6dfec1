"""Is every tensor found, alone or inside lists, with its own type and shape?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import et_text, node, process_node, tensor, thread_node
from tests.unit.importers.reading import trace_of
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.model.execution_trace import ExecutionTrace

A, B, C = ([i, i * 10, 0, 4, 4, "cpu"] for i in (11, 12, 13))


def uses(trace: ExecutionTrace) -> list[tuple[int, int | None, int, str, object]]:
    """(position, item, tensor_id, dtype, shape) of each use."""
    joined = trace.tensor_uses.join(trace.tensors, on="tensor", maintain_order="left")
    return [
        (position, item, tensor_id, dtype, json.loads(shape))
        for position, item, tensor_id, dtype, shape in joined.select(
            "position", "item", "tensor_id", "dtype", "shape"
        ).rows()
    ]


def with_input(folder: Path, kind: str, value: Any, shape: Any) -> ExecutionTrace:
    return trace_of(folder, [node(3, "a", 2, [(kind, value, shape)])])


def test_a_tensor_alone_has_the_members_of_its_tuple(tmp_path: Path) -> None:
    value = [7, 8, 16, 64, 2, "cuda:1"]
    trace = with_input(tmp_path, "Tensor(c10::BFloat16)", value, [8, 8])
    assert trace.tensors.rows() == [(0, 7, 8, 16, 64, 2, "cuda:1", "c10::BFloat16", "[8, 8]", None)]
    assert uses(trace) == [(0, None, 7, "c10::BFloat16", [8, 8])]


@pytest.mark.parametrize(
    "kind", ["Tensor(float)", "Tensor(long int)", "Tensor(c10::complex<float>)", "Tensor()"]
)
def test_a_type_is_what_stands_in_the_brackets(tmp_path: Path, kind: str) -> None:
    dtype = with_input(tmp_path, kind, A, [4]).tensors.get_column("dtype").item()
    assert dtype == kind.removeprefix("Tensor(").removesuffix(")")


def test_the_tensors_of_a_list_are_numbered_and_keep_their_types(tmp_path: Path) -> None:
    kind = "GenericList[Tensor(float),Tensor(c10::complex<float>),Tensor(long int)]"
    trace = with_input(tmp_path, kind, [A, B, C], [[4], [2, 2], []])
    assert uses(trace) == [
        (0, 0, 11, "float", [4]),
        (0, 1, 12, "c10::complex<float>", [2, 2]),
        (0, 2, 13, "long int", []),
    ]


def test_lists_inside_lists_are_walked_in_order(tmp_path: Path) -> None:
    kind = "Tuple[GenericList[Tensor(float)],Tuple[Tensor(int),Int,GenericList[Tensor(double)]]]"
    value, shape = [[A], [B, 5, [C]]], [[[4]], [[2, 2], [], [[1, 4]]]]
    trace = with_input(tmp_path, kind, value, shape)
    assert uses(trace) == [(0, 0, 11, "float", [4]), (0, 1, 12, "int", [2, 2]), (0, 2, 13, "double", [1, 4])]


def test_things_beside_tensors_in_a_list_are_passed_over(tmp_path: Path) -> None:
    kind = "GenericList[None,Tensor(float),Int]"
    trace = with_input(tmp_path, kind, ["<None>", A, 5], [[], [4], []])
    assert uses(trace) == [(0, 0, 11, "float", [4])]


def test_a_list_of_six_numbers_is_no_tensor(tmp_path: Path) -> None:
    trace = with_input(tmp_path, "GenericList[Int,Int,Int,Int,Int,Int]", [1, 2, 3, 4, 5, 6], [[]] * 6)
    assert trace.tensor_uses.is_empty()


def test_an_empty_list_of_tensors_has_none(tmp_path: Path) -> None:
    assert with_input(tmp_path, "GenericList[]", [], []).tensor_uses.is_empty()


def test_positions_count_all_inputs_and_outputs_apart(tmp_path: Path) -> None:
    a, b = tensor(11, 110, [4]), tensor(12, 120, [4])
    trace = trace_of(tmp_path, [node(3, "a", 2, [("Int", 1, []), a], [("Int", 2, []), ("Int", 3, []), b])])
    assert trace.tensor_uses.rows() == [(3, False, 1, None, 0), (3, True, 2, None, 1)]


@pytest.mark.parametrize(
    "value",
    [None, 5, "<Object>", [], [1, 2], [1, 2, 3, 4, 5, None], ["a", 2, 3, 4, 5, "cpu"], [[A]], {"a": 1}],
)
def test_a_tensor_without_a_tuple_is_a_value_only(tmp_path: Path, value: object) -> None:
    trace = with_input(tmp_path, "Tensor(float)", value, [4])
    assert trace.tensors.is_empty()
    assert trace.values.height == 1


@pytest.mark.parametrize("number", [2**63 - 1, -1, 2**63, 10**30, -(2**63)])
def test_a_number_beyond_64_bits_costs_no_other_tensor(tmp_path: Path, number: int) -> None:
    for place in range(5):
        value = [*A]
        value[place] = number
        nodes = [node(3, "a", 2, [("Tensor(float)", value, [4])], [tensor(20, 200, [4])])]
        trace = trace_of(tmp_path, [*nodes, node(4, "b", 2, [tensor(20, 200, [4])])])
        assert trace.tensor_edges.select("producer", "consumer").rows() == [(3, 4)]


def test_a_tensor_whose_device_is_no_utf8_costs_no_other_tensor(tmp_path: Path) -> None:
    odd = [
        ("Tensor(float)", [1, 2, 0, 4, 4, "DEVICE"], [4]),
        ("GenericList[Tensor(float)]", [[1, 2, 0, 4, 4, "DEVICE"]], [[4]]),
    ]
    text = et_text([process_node(), thread_node(), node(3, "a", 2, [*odd, tensor(20, 200, [4])])])
    path = tmp_path / "et.json"
    path.write_bytes(text.encode().replace(b"DEVICE", b"\xfc"))
    trace = read_execution_trace(path)
    assert trace.nodes.height == 3
    assert 20 in trace.tensors.get_column("tensor_id").to_list()
