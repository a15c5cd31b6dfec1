"""Who made the tensor that an operator reads, though addresses are used again?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, et_text, node, process_node, tensor, thread_node
from tests.unit.importers.reading import trace_of
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.schema import ET_TENSOR_EDGES, ET_TENSOR_USES, ET_TENSORS

ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
ADD_OUT = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
FOREACH = "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"
VIEW = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"
X, Y, Z = (tensor(10 * i, 100 * i, [4]) for i in (1, 2, 3))
TENSORS = {
    "X": X,
    "Y": Y,
    "Z": Z,
    "V": tensor(11, 100, [2, 2]),
    "U": tensor(12, 100, [2, 2]),  # V and U are views of X
    "W": tensor(10, 100, [8, 8]),
    "G": tensor(10, 100, [4], device="cuda:0"),  # at the address of X
    "N": tensor(10, 0, [4]),
    "M": tensor(20, 0, [4]),  # without a storage
    "1": ("Int", 1, []),
    "L": ("GenericList[Tensor(float),Tensor(float)]", [X[1], Y[1]], [[4], [4]]),
}
SCHEMAS = {"add_": ADD_, "out": ADD_OUT, "foreach": FOREACH, "view": VIEW, "": ""}


def program(text: str) -> list[Json]:
    """Nodes as `id@parent inputs>outputs schema`, a letter for each tensor; without a parent below the thread."""
    nodes = []
    for part in text.split(", "):
        place, arguments, *schema = part.split()
        (number, _, parent), (inputs, _, outputs) = place.partition("@"), arguments.partition(">")
        known = [[TENSORS[letter] for letter in letters] for letters in (inputs, outputs)]
        schemas = {"op_schema": SCHEMAS[schema[0]]} if schema else {}
        nodes.append(node(int(number), "op", int(parent or 2), *known, **schemas))
    return nodes


def edges(trace: ExecutionTrace) -> str:
    """`producer-consumer` of each edge; `=` where they share a storage alone."""
    rows = sorted(set(trace.tensor_edges.select("producer", "consumer", "via").rows()))
    return " ".join(f"{one}{'-' if via == 'tensor' else '='}{other}" for one, other, via in rows)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param("3 >X, 4 X>Y, 5 YX>", "3-4 3-5 4-5", id="read from the producer"),
        pytest.param("3 X>, 4 X>", "", id="from before the trace"),
        pytest.param("3 >X, 4 X>, 5 >X, 6 X>, 7 Y>X, 8 X>", "3-4 5-6 7-8", id="an address used again"),
        pytest.param("3 >X, 4 >W, 5 W>", "4-5", id="an address used again with another shape"),
        pytest.param("6 X>, 5 >X, 4 X>, 3 >X", "3-4 5-6", id="in the order of ids, not of the file"),
        pytest.param("3 Y>X, 4@3 Y>X, 5@4 Y>X, 6 X>", "5-6", id="a parent returns what its child made"),
        pytest.param("3 Z>Y, 4@3 Z>X, 5@3 X>Y, 6 Y>", "4-5 5-6", id="a child reads what its sibling made"),
        pytest.param("3 >X, 4@3 >X, 5@3 X>, 6@3 >X, 7 X>", "4-5 6-7", id="used again inside a parent"),
        pytest.param("3 >X, 4 >X, 5@4 X>", "3-5", id="what its parent gives out later is not read"),
        pytest.param("3 >X, 4 X>, 5 XY>X add_, 6 X>", "3-4 3-5 5-6", id="an operator writes its input"),
        pytest.param("3 >X, 4 XY> add_, 5 X>", "3-4 4-5", id="writes its input and gives nothing out"),
        pytest.param("3 YZ1X>X out, 4 X>, 5 Y>", "3-4", id="an out argument"),
        pytest.param("3 L1> foreach, 4 Y>, 5 X>", "3-4 3-5", id="every tensor of a written list"),
        pytest.param("3 XY>X add_, 4@3 XY>X add_, 5 X>", "4-5", id="the innermost of nested writers"),
        pytest.param("3 >X, 4 X>V view, 5 V>", "3-4 4-5", id="a view is made by its operator"),
        pytest.param("3 >X, 4 X>V view, 5 X>", "3-4 3-5", id="a view writes nothing"),
        pytest.param("3 >X, 4 X>V view, 5 VY>V add_, 6 X>", "3-4 3-6 4-5 5=6", id="writing a view"),
        pytest.param("3 >X, 4 X>V view, 5 XY>X add_, 6 V>", "3-4 3-5 4-6 5=6", id="writing what has a view"),
        pytest.param(
            "3 >X, 4 X>V view, 5 VY>V add_, 6 X>U view, 7 X>",
            "3-4 3-6 3-7 4-5 5=6 5=7",
            id="a view made after a write",
        ),
        pytest.param("3 >X, 4 >G, 5 X>", "3-5", id="the storage of another device"),
        pytest.param("3 >N, 4 >M, 5 N>", "3-5", id="tensors without a storage share none"),
    ],
)
def test_a_consumer_reads_from_the_producer(tmp_path: Path, nodes: str, expected: str) -> None:
    assert edges(trace_of(tmp_path, program(nodes))) == expected


@pytest.mark.parametrize(
    ("nodes", "columns", "expected"),
    [
        ("3 >X, 4 X>Y, 5 YX>", "tensor_id producer", [(10, 3), (20, 4)]),
        ("3 X>, 4 X>", "tensor_id producer", [(10, None)]),
        ("3 >X, 4 X>, 5 >X, 6 X>, 7 Y>X", "tensor_id producer", [(10, 3), (10, 5), (20, None), (10, 7)]),
        ("3 >X, 4 >W", "producer shape", [(3, "[4]"), (4, "[8,8]")]),
        ("3 >X, 5 XY>X add_", "tensor_id producer", [(10, 3), (20, None)]),
    ],
    ids=[
        "produced",
        "from before",
        "an address used again",
        "each shape is kept",
        "writing makes no other tensor",
    ],
)
def test_tensors_have_their_producer(
    tmp_path: Path, nodes: str, columns: str, expected: list[tuple[object, ...]]
) -> None:
    assert trace_of(tmp_path, program(nodes)).tensors.select(columns.split()).rows() == expected


def test_edges_have_positions(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, program("3 >X, 4 X>Y, 5 YX>"))
    assert trace.tensor_edges.rows() == [(3, 4, 0, "tensor"), (3, 5, 0, "tensor"), (4, 5, 1, "tensor")]


def test_threads_read_what_other_threads_wrote(tmp_path: Path) -> None:
    nodes = [node(3, "forward", 2, [], [X]), thread_node(4, tid=2), node(5, "backward", 4, [X])]
    assert edges(trace_of(tmp_path, nodes)) == "3-5"


def test_one_edge_stands_for_several_reads_of_a_tensor(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [node(3, "a", 2, [], [X]), node(4, "mul", 2, [X, X])])
    assert trace.tensor_edges.rows() == [(3, 4, 0, "tensor")]
    assert trace.tensor_uses.rows() == [(3, True, 0, None, 0), (4, False, 0, None, 0), (4, False, 1, None, 0)]


def test_without_tensors_the_tables_are_empty_and_typed(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [node(3, "a", 2, [("Int", 1, [])])])
    for table, frame in (
        (ET_TENSORS, trace.tensors),
        (ET_TENSOR_USES, trace.tensor_uses),
        (ET_TENSOR_EDGES, trace.tensor_edges),
    ):
        assert frame.is_empty()
        assert dict(frame.schema) == table.polars_schema()


# --- Is every tensor found, alone or inside lists, with its own type and shape -----------------------


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
    assert trace.tensors.rows() == [(0, 7, 8, 16, 64, 2, "cuda:1", "c10::BFloat16", "[8,8]", None)]
    assert uses(trace) == [(0, None, 7, "c10::BFloat16", [8, 8])]


@pytest.mark.parametrize(
    "kind", ["Tensor(float)", "Tensor(long int)", "Tensor(c10::complex<float>)", "Tensor()"]
)
def test_a_type_is_what_stands_in_the_brackets(tmp_path: Path, kind: str) -> None:
    dtype = with_input(tmp_path, kind, A, [4]).tensors.get_column("dtype").item()
    assert dtype == kind.removeprefix("Tensor(").removesuffix(")")


@pytest.mark.parametrize(
    ("kind", "value", "shape", "expected"),
    [
        pytest.param(
            "GenericList[Tensor(float),Tensor(c10::complex<float>),Tensor(long int)]",
            [A, B, C],
            [[4], [2, 2], []],
            [(0, 0, 11, "float", [4]), (0, 1, 12, "c10::complex<float>", [2, 2]), (0, 2, 13, "long int", [])],
            id="numbered, each with its type",
        ),
        pytest.param(
            "Tuple[GenericList[Tensor(float)],Tuple[Tensor(int),Int,GenericList[Tensor(double)]]]",
            [[A], [B, 5, [C]]],
            [[[4]], [[2, 2], [], [[1, 4]]]],
            [(0, 0, 11, "float", [4]), (0, 1, 12, "int", [2, 2]), (0, 2, 13, "double", [1, 4])],
            id="lists inside lists, in order",
        ),
        pytest.param(
            "GenericList[None,Tensor(float),Int]",
            ["<None>", A, 5],
            [[], [4], []],
            [(0, 0, 11, "float", [4])],
            id="beside other things",
        ),
        pytest.param(
            "GenericList[Int,Int,Int,Int,Int,Int]",
            [1, 2, 3, 4, 5, 6],
            [[]] * 6,
            [],
            id="six numbers are none",
        ),
        pytest.param("GenericList[]", [], [], [], id="an empty list"),
    ],
)
def test_the_tensors_of_a_list(
    tmp_path: Path, kind: str, value: Any, shape: Any, expected: list[Any]
) -> None:
    assert uses(with_input(tmp_path, kind, value, shape)) == expected


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


@pytest.mark.slow
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
