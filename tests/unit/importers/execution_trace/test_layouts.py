"""Are nodes read the same however their JSON is laid out?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, et_text, node, process_node, tensor, thread_node, write
from tests.unit.importers.reading import codes
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.model.execution_trace import ExecutionTrace

X = tensor(10, 100, [4])
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
        ('{"values": [{"a": [1], "shapes": [2]}], "shapes": [[]], "types": ["Int"]}', ['{"a": [1], "shapes": [2]}']),
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
