"""Who made the tensor that an operator reads, though addresses are used again?"""

from __future__ import annotations

from pathlib import Path

from tests.builders import Json, node, tensor, thread_node
from tests.unit.importers.reading import trace_of
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.schema import ET_TENSOR_EDGES, ET_TENSOR_USES, ET_TENSORS

ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
ADD_OUT = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
FOREACH = "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"
VIEW = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"
X, Y, Z = (tensor(10 * i, 100 * i, [4]) for i in (1, 2, 3))
X_VIEW, X_VIEW_2 = tensor(11, 100, [2, 2]), tensor(12, 100, [2, 2])


def edges(trace: ExecutionTrace) -> set[tuple[int, int, str]]:
    """(producer, consumer, via) of each edge."""
    return set(trace.tensor_edges.select("producer", "consumer", "via").rows())


def edges_of(folder: Path, *nodes: Json) -> set[tuple[int, int, str]]:
    return edges(trace_of(folder, list(nodes)))


def test_a_consumer_reads_what_the_producer_gave_out(tmp_path: Path) -> None:
    nodes = [node(3, "a", 2, [], [X]), node(4, "b", 2, [X], [Y]), node(5, "c", 2, [Y, X])]
    trace = trace_of(tmp_path, nodes)
    assert trace.tensor_edges.rows() == [(3, 4, 0, "tensor"), (3, 5, 0, "tensor"), (4, 5, 1, "tensor")]
    assert trace.tensors.select("tensor_id", "producer").rows() == [(10, 3), (20, 4)]


def test_a_tensor_from_before_the_trace_has_no_producer(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [node(3, "a", 2, [X]), node(4, "b", 2, [X])])
    assert trace.tensors.get_column("producer").to_list() == [None]
    assert trace.tensor_edges.is_empty()


def test_an_address_that_is_used_again_is_another_tensor(tmp_path: Path) -> None:
    nodes = [
        node(3, "a", 2, [], [X]),
        node(4, "reads a's", 2, [X]),
        node(5, "b", 2, [], [X]),
        node(6, "reads b's", 2, [X]),
        node(7, "c", 2, [Y], [X]),
        node(8, "reads c's", 2, [X]),
    ]
    trace = trace_of(tmp_path, nodes)
    assert edges(trace) == {(3, 4, "tensor"), (5, 6, "tensor"), (7, 8, "tensor")}
    assert trace.tensors.filter(tensor_id=10).get_column("producer").to_list() == [3, 5, 7]


def test_an_address_that_is_used_again_with_another_shape_keeps_each_shape(tmp_path: Path) -> None:
    wide = tensor(10, 100, [8, 8])
    nodes = [node(3, "a", 2, [], [X]), node(4, "b", 2, [], [wide]), node(5, "c", 2, [wide])]
    trace = trace_of(tmp_path, nodes)
    assert trace.tensors.select("producer", "shape").rows() == [(3, "[4]"), (4, "[8, 8]")]
    assert edges(trace) == {(4, 5, "tensor")}


def test_the_order_is_that_of_ids_and_not_that_of_the_file(tmp_path: Path) -> None:
    nodes = [
        node(6, "late", 2, [X]),
        node(5, "b", 2, [], [X]),
        node(4, "early", 2, [X]),
        node(3, "a", 2, [], [X]),
    ]
    assert edges_of(tmp_path, *nodes) == {(3, 4, "tensor"), (5, 6, "tensor")}


def test_a_parent_that_returns_what_its_child_made_is_no_producer(tmp_path: Path) -> None:
    nodes = [
        node(3, "outer", 2, [Y], [X]),
        node(4, "inner", 3, [Y], [X]),
        node(5, "innermost", 4, [Y], [X]),
        node(6, "reader", 2, [X]),
    ]
    assert edges_of(tmp_path, *nodes) == {(5, 6, "tensor")}


def test_a_child_reads_what_its_sibling_made_inside_their_parent(tmp_path: Path) -> None:
    nodes = [
        node(3, "outer", 2, [Z], [Y]),
        node(4, "first", 3, [Z], [X]),
        node(5, "second", 3, [X], [Y]),
        node(6, "reader", 2, [Y]),
    ]
    assert edges_of(tmp_path, *nodes) == {(4, 5, "tensor"), (5, 6, "tensor")}


def test_an_address_used_again_inside_a_parent_is_that_of_the_last_child(tmp_path: Path) -> None:
    nodes = [
        node(3, "outer", 2, [], [X]),
        node(4, "first", 3, [], [X]),
        node(5, "uses the first", 3, [X]),
        node(6, "second", 3, [], [X]),
        node(7, "reader", 2, [X]),
    ]
    assert edges_of(tmp_path, *nodes) == {(4, 5, "tensor"), (6, 7, "tensor")}


def test_a_node_does_not_read_what_its_parent_gives_out_later(tmp_path: Path) -> None:
    nodes = [node(3, "a", 2, [], [X]), node(4, "outer", 2, [], [X]), node(5, "inner", 4, [X])]
    assert edges_of(tmp_path, *nodes) == {(3, 5, "tensor")}


def test_an_operator_that_writes_its_input_is_the_producer_from_then_on(tmp_path: Path) -> None:
    nodes = [
        node(3, "a", 2, [], [X]),
        node(4, "before", 2, [X]),
        node(5, "aten::add_", 2, [X, Y], [X], op_schema=ADD_),
        node(6, "after", 2, [X]),
    ]
    assert edges_of(tmp_path, *nodes) == {(3, 4, "tensor"), (3, 5, "tensor"), (5, 6, "tensor")}


def test_writing_an_input_does_not_make_another_tensor(tmp_path: Path) -> None:
    nodes = [node(3, "a", 2, [], [X]), node(5, "aten::add_", 2, [X, Y], [X], op_schema=ADD_)]
    assert trace_of(tmp_path, nodes).tensors.select("tensor_id", "producer").rows() == [(10, 3), (20, None)]


def test_an_operator_that_writes_its_input_and_gives_nothing_out_is_a_producer(tmp_path: Path) -> None:
    nodes = [node(3, "a", 2, [], [X]), node(4, "op_", 2, [X, Y], [], op_schema=ADD_), node(5, "r", 2, [X])]
    assert (4, 5, "tensor") in edges_of(tmp_path, *nodes)


def test_an_out_argument_is_written(tmp_path: Path) -> None:
    nodes = [
        node(3, "aten::add", 2, [Y, Z, ("Int", 1, []), X], [X], op_schema=ADD_OUT),
        node(4, "reads out", 2, [X]),
        node(5, "reads self", 2, [Y]),
    ]
    assert edges_of(tmp_path, *nodes) == {(3, 4, "tensor")}


def test_every_tensor_of_a_written_list_is_written(tmp_path: Path) -> None:
    many = ("GenericList[Tensor(float),Tensor(float)]", [X[1], Y[1]], [[4], [4]])
    nodes = [
        node(3, "_foreach_add_", 2, [many, ("Int", 1, [])], [], op_schema=FOREACH),
        node(4, "r", 2, [Y]),
        node(5, "r", 2, [X]),
    ]
    assert edges_of(tmp_path, *nodes) == {(3, 4, "tensor"), (3, 5, "tensor")}


def test_the_innermost_of_nested_writers_is_the_producer(tmp_path: Path) -> None:
    nodes = [
        node(3, "outer_", 2, [X, Y], [X], op_schema=ADD_),
        node(4, "inner_", 3, [X, Y], [X], op_schema=ADD_),
        node(5, "r", 2, [X]),
    ]
    assert edges_of(tmp_path, *nodes) == {(4, 5, "tensor")}


def test_a_view_is_made_by_its_operator(tmp_path: Path) -> None:
    nodes = [
        node(3, "a", 2, [], [X]),
        node(4, "view", 2, [X], [X_VIEW], op_schema=VIEW),
        node(5, "r", 2, [X_VIEW]),
    ]
    assert edges_of(tmp_path, *nodes) == {(3, 4, "tensor"), (4, 5, "tensor")}


def test_a_view_writes_nothing(tmp_path: Path) -> None:
    nodes = [
        node(3, "a", 2, [], [X]),
        node(4, "view", 2, [X], [X_VIEW], op_schema=VIEW),
        node(5, "r", 2, [X]),
    ]
    assert edges_of(tmp_path, *nodes) == {(3, 4, "tensor"), (3, 5, "tensor")}


def test_who_writes_a_view_writes_what_it_is_a_view_of(tmp_path: Path) -> None:
    nodes = [
        node(3, "a", 2, [], [X]),
        node(4, "view", 2, [X], [X_VIEW], op_schema=VIEW),
        node(5, "add_", 2, [X_VIEW, Y], [X_VIEW], op_schema=ADD_),
        node(6, "r", 2, [X]),
    ]
    assert {(5, 6, "storage"), (3, 6, "tensor"), (4, 5, "tensor")} <= edges_of(tmp_path, *nodes)


def test_who_writes_a_tensor_writes_its_views(tmp_path: Path) -> None:
    nodes = [
        node(3, "a", 2, [], [X]),
        node(4, "view", 2, [X], [X_VIEW], op_schema=VIEW),
        node(5, "add_", 2, [X, Y], [X], op_schema=ADD_),
        node(6, "r", 2, [X_VIEW]),
    ]
    assert {(4, 6, "tensor"), (5, 6, "storage")} <= edges_of(tmp_path, *nodes)


def test_a_view_made_after_a_write_does_not_hide_the_writer(tmp_path: Path) -> None:
    nodes = [
        node(3, "a", 2, [], [X]),
        node(4, "view", 2, [X], [X_VIEW], op_schema=VIEW),
        node(5, "add_", 2, [X_VIEW, Y], [X_VIEW], op_schema=ADD_),
        node(6, "view", 2, [X], [X_VIEW_2], op_schema=VIEW),
        node(7, "r", 2, [X]),
    ]
    assert (5, 7, "storage") in edges_of(tmp_path, *nodes)


def test_the_storage_of_another_device_is_another_storage(tmp_path: Path) -> None:
    on_gpu = tensor(10, 100, [4], device="cuda:0")
    nodes = [node(3, "a", 2, [], [X]), node(4, "b", 2, [], [on_gpu]), node(5, "r", 2, [X])]
    assert edges_of(tmp_path, *nodes) == {(3, 5, "tensor")}


def test_tensors_without_a_storage_share_none(tmp_path: Path) -> None:
    sparse, other = tensor(10, 0, [4]), tensor(20, 0, [4])
    nodes = [node(3, "a", 2, [], [sparse]), node(4, "b", 2, [], [other]), node(5, "r", 2, [sparse])]
    assert edges_of(tmp_path, *nodes) == {(3, 5, "tensor")}


def test_threads_read_what_other_threads_wrote(tmp_path: Path) -> None:
    nodes = [node(3, "forward", 2, [], [X]), thread_node(4, tid=2), node(5, "backward", 4, [X])]
    assert edges_of(tmp_path, *nodes) == {(3, 5, "tensor")}


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
