"""Are the nodes of every schema read into the same tables, and is nothing of them lost?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest

import tracebraid.importers.execution_trace.reader as reader
from tests.builders import Json, et_text, node, process_node, tensor, thread_node, write
from tests.unit.importers.reading import codes, rows, trace_of
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.execution_trace.tables import KNOWN_SCHEMAS, last_inside, tidy_nodes
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.schema import ET_COLLECTIVES, ET_EXTRA_ATTRS, ET_NODES, ET_VALUES

X = tensor(10, 100, [4])
ATTRS = {"rf_id": 9, "fw_parent": 2, "seq_id": 5, "scope": 1, "tid": 3, "fw_tid": 1, "op_schema": "f() -> ()"}


def flat(node_id: int, name: str, parent: int, **members: Any) -> Json:
    """A node of schema 1.0.1."""
    return {
        "name": name,
        "id": node_id,
        "rf_id": node_id,
        "parent": parent,
        "fw_parent": 0,
        "seq_id": -1,
        "scope": 0,
        "tid": 1,
        "fw_tid": 0,
        "op_schema": "",
        **{
            key: [] for side in ("input", "output") for key in (f"{side}s", f"{side}_shapes", f"{side}_types")
        },
        **members,
    }


def extras(trace: ExecutionTrace) -> list[tuple[int, str, str, object]]:
    return [(i, key, kind, json.loads(value)) for i, key, kind, value in trace.extra_attrs.rows()]


@pytest.mark.parametrize("schema", KNOWN_SCHEMAS[1:])
def test_every_known_schema_with_attributes_is_read(tmp_path: Path, schema: str) -> None:
    trace = trace_of(tmp_path, [node(3, "aten::add", 2, [X], [X], **ATTRS, kernel_backend="triton")], schema)
    assert trace.schema == schema
    assert codes(trace.findings) == []
    assert rows(trace.nodes)[-1] == {
        "node_id": 3,
        "name": "aten::add",
        "parent_id": 2,
        "is_root": False,
        "kernel_backend": "triton",
        **ATTRS,
    }


def test_the_flat_nodes_of_the_first_schema_are_read(tmp_path: Path) -> None:
    members = {**ATTRS, "inputs": [X[1], 5], "input_shapes": [[4], []], "input_types": [X[0], "Int"]}
    nodes = [
        flat(1, "[pytorch|profiler|execution_graph|process]", 1),
        flat(2, "[pytorch|profiler|execution_graph|thread]", 1),
        flat(3, "aten::add", 2, **members, outputs=[6], output_shapes=[[]], output_types=["Int"]),
    ]
    trace = read_execution_trace(write(tmp_path / "et.json", et_text(nodes, "1.0.1")))
    assert trace.schema == "1.0.1"
    assert codes(trace.findings) == []
    assert rows(trace.nodes)[-1] == {
        "node_id": 3,
        "name": "aten::add",
        "parent_id": 2,
        "is_root": False,
        **ATTRS,
    }
    assert trace.nodes.get_column("is_root").to_list() == [True, True, False]
    assert trace.values.select("is_output", "position", "type", "value", "shape", "strides").rows() == [
        (False, 0, "Tensor(float)", '[10,100,0,4,4,"cpu"]', "[4]", None),
        (False, 1, "Int", "5", "[]", None),
        (True, 0, "Int", "6", "[]", None),
    ]
    assert trace.tensors.get_column("tensor_id").to_list() == [10]


def test_a_flat_node_with_a_text_that_is_the_word_attrs_is_read(tmp_path: Path) -> None:
    nodes = [
        flat(1, "p", 1),
        flat(2, "a", 1, inputs=["attrs"], input_shapes=[[]], input_types=["String"]),
    ]
    trace = read_execution_trace(write(tmp_path / "et.json", et_text(nodes, "1.0.1")))
    assert trace.nodes.get_column("name").to_list() == ["p", "a"]


def test_an_unknown_schema_is_read_and_said(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [node(3, "a", 2)], "9.9.9")
    assert trace.nodes.height == 3
    assert codes(trace.findings) == ["schema-unknown"]
    assert "9.9.9" in trace.findings[0].message


def test_every_table_has_the_columns_and_types_of_the_schema(tmp_path: Path) -> None:
    full = node(3, "a", 2, [X], [X], collective_name="allreduce", new=1)
    for nodes in ([full], []):
        trace = trace_of(tmp_path, nodes)
        for table, frame in (
            (ET_NODES, trace.nodes),
            (ET_VALUES, trace.values),
            (ET_COLLECTIVES, trace.collectives),
            (ET_EXTRA_ATTRS, trace.extra_attrs),
        ):
            assert dict(frame.schema) == table.polars_schema()


def test_inputs_and_outputs_keep_their_order_types_and_text(tmp_path: Path) -> None:
    ins: list[tuple[str, Any, list[Any]]] = [
        ("Int", 1, []),
        ("GenericList[Int,Int]", [16, 16], [[], []]),
        ("None", "<None>", []),
    ]
    outs: list[tuple[str, Any, list[Any]]] = [("Double", "nan", []), ("String", 'a "b"', [])]
    trace = trace_of(tmp_path, [node(3, "a", 2, ins, outs), node(4, "b", 2, [("Bool", True, [])])])
    assert [(*row[:4], json.loads(row[4]), json.loads(row[5])) for row in trace.values.rows()] == [
        (3, False, 0, "Int", 1, []),
        (3, False, 1, "GenericList[Int,Int]", [16, 16], [[], []]),
        (3, False, 2, "None", "<None>", []),
        (3, True, 0, "Double", "nan", []),
        (3, True, 1, "String", 'a "b"', []),
        (4, False, 0, "Bool", True, []),
    ]


def test_triton_nodes_whose_stream_has_no_strides_are_read(tmp_path: Path) -> None:
    kernel = node(3, "triton_poi_0", 2, [X, ("Int", 0, [])], kernel_backend="triton", kernel_file="/a.py")
    kernel["inputs"]["strides"] = [[1]]
    trace = trace_of(tmp_path, [kernel, node(4, "b", 2, [X])])
    assert trace.values.select("node_id", "position", "type", "strides").rows() == [
        (3, 0, "Tensor(float)", "[1]"),
        (3, 1, "Int", None),
        (4, 0, "Tensor(float)", "[]"),
    ]
    assert rows(trace.nodes, "kernel_backend", "kernel_file")[2] == {
        "kernel_backend": "triton",
        "kernel_file": "/a.py",
    }


def test_the_attributes_of_collectives_are_typed(tmp_path: Path) -> None:
    attrs: Json = {
        "collective_name": "all_to_allv",
        "dtype": "Float",
        "in_msg_nelems": 8,
        "out_msg_nelems": 8,
        "in_split_size": "[4,4]",
        "out_split_size": "[4,4]",
        "global_rank_start": 0,
        "global_rank_stride": 1,
        "pg_name": "0",
        "pg_desc": "default_pg",
        "pg_size": 2,
        "is_asynchronized_op": True,
    }
    wait: Json = {"collective_name": "wait", "pg_size": 2, "is_asynchronized_op": False}
    nodes = [
        node(3, "record_param_comms", 2, **attrs),
        node(4, "a", 2),
        node(5, "record_param_comms", 2, **wait),
    ]
    assert rows(trace_of(tmp_path, nodes).collectives) == [{"node_id": 3, **attrs}, {"node_id": 5, **wait}]


@pytest.mark.parametrize(
    ("text", "value"), [("True", True), ("False", False), ("true", True), ("false", False)]
)
def test_a_truth_value_as_text_keeps_its_meaning(tmp_path: Path, text: str, value: bool) -> None:
    trace = trace_of(tmp_path, [node(3, "a", 2, collective_name="x", is_asynchronized_op=text)])
    read = trace.collectives.get_column("is_asynchronized_op").to_list()
    assert read == [value] or (read == [None] and extras(trace)[0][1] == "is_asynchronized_op")


def test_an_attribute_without_a_column_is_kept(tmp_path: Path) -> None:
    ranges = node(3, "a", 2, tensor_range='{"0":[0,5]}', new=7)
    ranges["attrs"].append({"name": "list", "type": "list", "value": [1, None, {"a": "b"}]})
    ranges["attrs"].append({"name": "untyped"})
    assert extras(trace_of(tmp_path, [ranges])) == [
        (3, "tensor_range", "string", '{"0":[0,5]}'),
        (3, "new", "int64", 7),
        (3, "list", "list", [1, None, {"a": "b"}]),
        (3, "untyped", "", None),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rf_id", "seven"),
        ("rf_id", 7.5),
        ("rf_id", [7]),
        ("fw_parent", 2**64 - 1),
        ("op_schema", 5),
        ("kernel_file", ["a"]),
        ("pg_size", [2]),
        ("in_msg_nelems", "many"),
    ],
)
def test_an_attribute_that_does_not_fit_its_column_is_kept(tmp_path: Path, name: str, value: object) -> None:
    trace = trace_of(tmp_path, [node(3, "a", 2, **Json({name: value}))])
    assert [(key, found) for _, key, _, found in extras(trace)] == [(name, value)]


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": "x"},
        {"id": 3.5},
        {"id": 2**63},
        {"id": -(2**63)},
        {"id": 10**30},
        {"name": None},
        {"ctrl_deps": [2]},
        {"inputs": None},
        {"inputs": {"values": 5}},
        {"inputs": {"values": [1], "types": [5]}},
        {"attrs": {"rf_id": 1}},
        {"attrs": [5]},
        {"attrs": [{"value": 1}]},
    ],
    ids=str,
)
def test_what_is_no_node_is_left_out_and_said_with_its_place(tmp_path: Path, change: Json) -> None:
    nodes = [process_node(), thread_node(), {**node(3, "odd", 2), **change}, node(4, "b", 2)]
    text = et_text(nodes)
    trace = read_execution_trace(write(tmp_path / "et.json", text))
    assert trace.nodes.get_column("node_id").to_list() == [1, 2, 4]
    assert codes(trace.findings) == ["node-unreadable"]
    byte = int(trace.findings[0].where.removeprefix("byte ").replace(",", ""))
    assert text.encode()[byte:].lstrip().startswith(json.dumps(nodes[2]).encode())


@pytest.mark.parametrize(
    "side", [{"values": [1, 2]}, {"values": [1, 2], "types": ["Int"], "shapes": [[], [], []]}]
)
def test_lists_of_unequal_length_follow_the_values(tmp_path: Path, side: Json) -> None:
    trace = trace_of(tmp_path, [{**node(3, "a", 2), "inputs": side}, node(4, "b", 2, [X])])
    assert trace.values.select("node_id", "position", "value").rows() == [
        (3, 0, "1"),
        (3, 1, "2"),
        (4, 0, '[10,100,0,4,4,"cpu"]'),
    ]


def test_a_name_that_was_not_escaped_is_mended(tmp_path: Path) -> None:
    text = et_text([process_node(), node(2, "NAME", 1), node(3, "b", 1)]).replace("NAME", 'say "x"')
    trace = read_execution_trace(write(tmp_path / "et.json", text))
    assert trace.nodes.get_column("name").to_list()[1:] == ['say "x"', "b"]
    assert codes(trace.findings) == ["node-mended"]


# --- Are nodes read the same however their JSON is laid out ------------------------------------------


TRAP: tuple[str, str, list[int]] = ("String", '], "shapes": [[], "x"]', [])
NODES = [
    node(3, "a", 2, [X, TRAP, ("Int", 5, [])], [X], rf_id=30, fw_parent=7, seq_id=8, new="x"),
    node(4, "b", 2, [("GenericList[Int]", [1, 2], [[], []])], [], rf_id=40),
]


def turned(found: Json) -> Json:
    """The same with the members of its objects the other way round; so are the attributes."""
    made: Json = {key: found[key] for key in ("id", "name", "ctrl_deps")}
    for key in ("outputs", "inputs"):
        made[key] = dict(reversed(list(found[key].items())))
    return {**made, "attrs": [dict(reversed(list(attr.items()))) for attr in reversed(found["attrs"])]}


def read(folder: Path, text: str) -> ExecutionTrace:
    return read_execution_trace(write(folder / "et.json", text))


def assert_same(one: ExecutionTrace, other: ExecutionTrace) -> None:
    for name in ("nodes", "values", "tensors", "tensor_uses"):
        assert getattr(one, name).equals(getattr(other, name)), name
    by = ["node_id", "key"]
    assert one.extra_attrs.sort(by).equals(other.extra_attrs.sort(by))


@pytest.mark.parametrize("layout", ["turned", "compact", "mixed"])
def test_the_order_of_members_and_blanks_do_not_matter(tmp_path: Path, layout: str) -> None:
    roots = [process_node(), thread_node()]
    expected = read(tmp_path, et_text([*roots, *NODES]))
    assert expected.values.height == 5
    if layout == "compact":
        found = read(tmp_path, json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": [*roots, *NODES]}))
        packed = json.dumps(
            {"schema": "1.1.1-chakra.0.0.4", "nodes": [*roots, *NODES]}, separators=(",", ":")
        )
        values = expected.values.get_column("value").to_list()
        again = read(tmp_path, packed)
        assert [json.loads(value) for value in again.values.get_column("value")] == [
            json.loads(value) for value in values
        ]
        assert again.nodes.equals(expected.nodes)
    else:
        others = [turned(found) for found in NODES]
        found = read(tmp_path, et_text([*roots, *(others if layout == "turned" else [NODES[0], others[1]])]))
    assert_same(found, expected)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ('{"values": [1], "shapes": [[]], "types": ["Int"], "values": [2, 3]}', ["2", "3"]),
        ('{"values": [{"a": [1], "shapes": [2]}], "shapes": [[]], "types": ["Int"]}', ['{"a":[1],"shapes":[2]}']),
        ('{"values": [1], "x": [2], "shapes": [[]], "types": ["Int"]}', ["1"]),
        ('{"shapes": [], "values": []}', []),
        ("{}", []),
    ],
)  # fmt: skip
def test_members_in_odd_places_are_read_as_json_says(
    tmp_path: Path, arguments: str, values: list[str]
) -> None:
    text = et_text([process_node(), thread_node(), node(3, "a", 2), node(4, "b", 2, [X])])
    text = text.replace('{"values": [], "shapes": [], "types": [], "strides": []}', "ARGUMENTS")
    first = text.index("ARGUMENTS", text.index('"name": "a"'))
    text = text[:first] + arguments + text[first + len("ARGUMENTS") :]
    text = text.replace("ARGUMENTS", '{"values": [], "shapes": [], "types": [], "strides": []}')
    trace = read(tmp_path, text)
    assert codes(trace.findings) == []
    assert trace.values.filter(node_id=3).get_column("value").to_list() == values
    assert trace.values.filter(node_id=4).get_column("shape").to_list() == ["[4]"]


@pytest.mark.parametrize(("name", "first", "last"), [("rf_id", 1, 2), ("seq_id", 1, -5), ("fw_parent", 9, 0)])
def test_of_an_attribute_that_comes_twice_the_last_counts(
    tmp_path: Path, name: str, first: Any, last: Any
) -> None:
    made = node(3, "a", 2, **{name: first})
    made["attrs"].append({"name": name, "type": "int64", "value": last})
    trace = read(tmp_path, et_text([process_node(), thread_node(), made]))
    assert trace.nodes.filter(node_id=3).get_column(name).to_list() == [last]


# --- Is the tree of nodes put in order whatever the ids and parents are ------------------------------


PROCESS = "[pytorch|profiler|execution_trace|process]"

Row: TypeAlias = "tuple[int, str, int | None]"
"""(id, name, parent)."""


def frame_of(nodes: list[Row]) -> pl.DataFrame:
    ids, names, parents = zip(*nodes, strict=True)
    return pl.DataFrame(
        {"node_id": ids, "name": names, "parent_id": parents},
        schema_overrides={key: ET_NODES.polars_schema()[key] for key in ("node_id", "name", "parent_id")},
    )


def tidied(nodes: list[Row], repeated: list[int] | None = None) -> tuple[list[Row], list[Finding]]:
    tidy, findings = tidy_nodes(frame_of(nodes), repeated or [], "et.json")
    return tidy.select("node_id", "name", "parent_id").rows(), findings


def reach(parents: list[int | None]) -> list[int]:
    """Rows of the last node inside each; ids are rows."""
    return last_inside(frame_of([(i, "a", parent) for i, parent in enumerate(parents)])).tolist()


def test_nodes_are_put_in_the_order_of_their_ids() -> None:
    rows, findings = tidied([(3, "b", 2), (2, "a", 1), (1, PROCESS, 1)])
    assert rows == [(1, PROCESS, None), (2, "a", 1), (3, "b", 2)]
    assert findings == []


def test_roots_are_the_nodes_of_processes_and_threads() -> None:
    names = [
        "[pytorch|profiler|execution_graph|process]",
        "[pytorch|profiler|execution_trace|thread]",
        "aten::add",
        "my [pytorch|profiler|execution_trace|thread]",
    ]
    tidy, _ = tidy_nodes(frame_of([(i, name, 0) for i, name in enumerate(names)]), [], "")
    assert tidy.get_column("is_root").to_list() == [True, True, False, False]


def test_nodes_that_were_left_out_for_their_id_are_counted() -> None:
    rows, findings = tidied([(1, PROCESS, 1), (2, "a", 1), (3, "d", 1)], repeated=[3, 2, 2])
    assert rows == [(1, PROCESS, None), (2, "a", 1), (3, "d", 1)]
    assert [(f.code, f.path, f.where, f.count) for f in findings] == [
        ("duplicate-id", "et.json", "nodes 2, 3", 3)
    ]


def test_a_parent_that_is_not_there_stays_and_is_said() -> None:
    rows, findings = tidied([(1, PROCESS, 1), (5, "a", 4), (6, "b", 5), (7, "c", 4)])
    assert rows == [(1, PROCESS, None), (5, "a", 4), (6, "b", 5), (7, "c", 4)]
    assert [(f.code, f.where, f.count) for f in findings] == [("parent-missing", "nodes 5, 7", 2)]


def test_each_cycle_of_parents_is_cut_at_one_node() -> None:
    rows, findings = tidied(
        [(1, PROCESS, 1), (2, "a", 3), (3, "b", 4), (4, "c", 2), (5, "d", 6), (6, "e", 5), (7, "f", 5)]
    )
    up = {node: parent for node, _, parent in rows}
    assert sum(parent is None for parent in up.values()) == 3
    for start in up:
        above: list[int | None] = [start]
        while (parent := up.get(above[-1] or 0)) is not None:
            assert parent not in above
            above.append(parent)
    assert [(f.code, f.count) for f in findings] == [("parent-cycle", 2)]


def test_only_three_nodes_are_named_in_a_finding() -> None:
    _, findings = tidied([(i, "a", 99) for i in range(1, 10)])
    assert findings[0].where == "nodes 1, 2, 3, ..."
    assert findings[0].count == 9


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_nodes_is_read_without_recursion() -> None:
    count = 100_000
    rows, findings = tidied([(i, "a", i - 1) for i in range(1, count + 1)])
    assert len(rows) == count
    assert [f.code for f in findings] == ["parent-missing"]
    assert reach([None, *range(count - 1)]) == [count - 1] * count


def test_a_cycle_of_a_hundred_thousand_nodes_is_cut_once() -> None:
    count = 100_000
    _, findings = tidied([(i, "a", (i + 1) % count) for i in range(count)])
    assert [(f.code, f.count) for f in findings] == [("parent-cycle", 1)]


def test_a_node_reaches_to_its_last_descendant() -> None:
    assert reach([None, 0, 1, 1, 0, 4, None]) == [5, 3, 2, 3, 5, 5, 6]


def test_a_parent_that_starts_after_its_child_is_not_around_it() -> None:
    assert reach([None, 3, 0, None]) == [2, 1, 2, 3]


def test_progress_comes_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 2000)
    nodes = [process_node(), thread_node(), *(node(i, f"op {i % 7}", 2) for i in range(3, 200))]
    done: list[float] = []
    read_execution_trace(write(tmp_path / "et.json", et_text(nodes)), progress=done.append)
    assert done == sorted(done)
    assert done[-1] > 0.9
