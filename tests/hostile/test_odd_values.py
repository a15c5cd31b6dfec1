"""Values of any type, size and depth cost no other event or node."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    Json,
    complete,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
)
from tests.hostile.reading import (
    ET,
    EVENTS,
    KINETO,
    NODES,
    codes,
    names,
    timeline,
    trace,
)
from tracebraid.importers.kineto.reader import read_timeline

ODD_VALUES: list[Any] = [
    None,
    True,
    "",
    "x",
    "7",
    -1,
    1.5,
    10**30,
    -(10**30),
    2**63,
    [],
    [[1]],
    {},
    {"a": {}},
]


@pytest.mark.parametrize("member", ["pid", "tid", "ts", "dur", "name", "cat", "args", "ph", "id", "bp"])
def test_any_type_of_any_member_of_an_event_costs_no_other(tmp_path: Path, member: str) -> None:
    for value in ODD_VALUES:
        for odd in (op("odd", 3, 4, External_id=9), flow("s", 7, 3), kernel("odd", 3, 4, 5)):
            found = timeline(tmp_path, kineto_text([EVENTS[0], {**odd, member: value}, EVENTS[2]]))
            assert {"first", "third"} <= set(names(found)), (member, value)
            assert {1, 3} <= set(found.host_ops.get_column("external_id").to_list()), (member, value)


@pytest.mark.parametrize("member", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])
def test_an_event_without_a_member_costs_no_other(tmp_path: Path, member: str) -> None:
    odd = op("odd", 3, 4)
    del odd[member]
    found = timeline(tmp_path, kineto_text([EVENTS[0], odd, EVENTS[2]]))
    assert {"first", "third"} <= set(names(found))
    lost = {
        "ph": "event-unreadable",
        "ts": "event-without-time",
        "dur": "event-duration",
        "cat": "category-unknown",
    }
    assert codes(found) == ([lost[member]] if member in lost else [])


@pytest.mark.parametrize("depth", [50, 500, *range(900, 1000, 4), 5000, 100_000])
def test_values_of_any_depth_cost_no_other_event(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    odd = [
        op("odd", 3, 4, External_id="x", new="@"),
        kernel("odd", 3, 4, 5, grid="@"),
        complete("odd", "z", 1, 1, 1, 1, {"y": "@"}),
    ]
    for one in odd:
        found = timeline(tmp_path, kineto_text([EVENTS[0], one, EVENTS[2]]).replace('"@"', deep))
        assert {"first", "third"} <= set(names(found))
    found_et = trace(tmp_path, ET.replace('"strides": [[]]', f'"strides": [{deep}]', 1))
    assert {3, 5} & set(found_et.nodes.get_column("node_id").to_list())


def test_deep_text_inside_a_text_costs_no_event(tmp_path: Path) -> None:
    args: Json = {"grid": "[" * 5000, "Process Group Ranks": "[" * 5000, "Collective name": "x"}
    found = timeline(tmp_path, kineto_text([EVENTS[0], kernel("k", 1, 2, 3, **args), EVENTS[2]]))
    assert names(found) == ["first", "k", "third"]


NODE_CHANGES: list[Json] = [
    {member: value}
    for member in ("id", "name", "ctrl_deps", "inputs", "outputs", "attrs")
    for value in ODD_VALUES
] + [
    {"attrs": [{"name": name, "type": "x", "value": value}]}
    for name in ("rf_id", "op_schema", "pg_size", "is_asynchronized_op", "in_split_size", "new")
    for value in ODD_VALUES
]


def test_any_type_of_any_member_of_a_node_costs_no_other(tmp_path: Path) -> None:
    for change in NODE_CHANGES:
        found = trace(tmp_path, et_text([*NODES[:3], {**NODES[3], **change}, NODES[4]]))
        kept = set(found.nodes.get_column("name").to_list())
        assert {"first", "third"} <= kept or change == {"id": True}, change
        assert (3, 5) in found.tensor_edges.select("producer", "consumer").rows() or "id" in change, change


@pytest.mark.parametrize(
    "kind", ["Tensor(float)", "GenericList[Tensor(float)]", "Tuple[Tensor(", "", "\ufffd"]
)
def test_any_value_of_an_input_costs_no_other_node(tmp_path: Path, kind: str) -> None:
    ids = [[10**30, 1, 2, 3, 4, "cpu"], [1, 10**30, 0, 2**63, -(2**63), "x"], [[[1, 2, 3, 4, 5, "cpu"]]]]
    for value in [*ODD_VALUES, *ids]:
        for shape in ([], [4], None, "x", 10**30):
            odd = node(4, "second", 2, [(kind, value, shape)], [(kind, value, shape)])
            found = trace(tmp_path, et_text([*NODES[:3], odd, NODES[4]]))
            assert found.nodes.height == 5
            assert (3, 5) in found.tensor_edges.select("producer", "consumer").rows()


def test_repeated_ids_missing_parents_and_cycles_are_all_said(tmp_path: Path) -> None:
    nodes = [
        *NODES,
        node(5, "again", 2),
        node(7, "orphan", 6),
        node(8, "a", 9),
        node(9, "b", 8),
        node(10, "self", 10),
    ]
    found = trace(tmp_path, et_text(nodes))
    assert found.nodes.get_column("node_id").to_list() == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    assert codes(found) == ["duplicate-id", "parent-missing", "parent-cycle"]
    assert [finding.where for finding in found.findings] == ["node 5", "node 7", "node 8"]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "1" + "0" * 5000])
def test_numbers_that_are_none_cost_no_other_node(tmp_path: Path, number: str) -> None:
    for old in ('"id": 4', '"value": 4', '[10, 100, 0, 4, 4, "cpu"]', '"ctrl_deps": 2', '"start_ts": 100'):
        found = trace(tmp_path, number.join(ET.rsplit(old, 1)) if old in ET else ET)
        assert found.nodes.height >= 4


@pytest.mark.parametrize("pipe", [KINETO.encode(), gzip.compress(KINETO.encode()), KINETO.encode()[:300]])
def test_a_pipe_is_read_as_far_as_it_goes(pipe: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, pipe)
    os.close(writing)
    try:
        assert names(read_timeline(f"/dev/fd/{reading}", processes=1))[0] == "first"
    finally:
        os.close(reading)
