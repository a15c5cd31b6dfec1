"""Traces in another form that means the same: other JSON text, other orders of events and nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import Json, call, flow, kernel, node, op, process_node, tensor, thread_node
from tracebraid.importers.json_stream.recover import plain_text, with_whole_numbers
from tracebraid.model.schema import KINETO_TABLES

EVENTS: list[Json] = [
    op("aten::mm", 10, 20, 1, Input_Dims=[[4, 8], []], Input_type=["float", ""]),
    call("cudaLaunchKernel", 12, 2, 5),
    flow("s", 5, 12),
    kernel("gemm", 15, 9, 5, grid=[1, 2, 3]),
    flow("f", 5, 15, pid=0, tid=7),
    op("aten::relu", 10, 20, 2),
    op("aten::add", 12, 1, 1),
]
HEADER: Json = {
    "schemaVersion": 1,
    "baseTimeNanoseconds": 1000,
    "distributedInfo": {"rank": 0, "world_size": 2},
}
GROUPS = (
    '[{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "gloo", "ranks": [0, 1], "group_size": 2}]'
)
NODES: list[Json] = [
    process_node(),
    thread_node(),
    node(3, "## process_group:init ##", 2, [("String", "[]", [])]),
    node(4, "## process_group:init ##", 2, [("String", GROUPS, [])]),
    node(5, "aten::mm", 2, [tensor(10, 100, [4, 8])], [tensor(11, 101, [8])], rf_id=3, seq_id=7),
    node(6, "aten::add", 2, [("Double", 0.5, [])], rf_id=6),
]


def kineto(events: list[Json], header: Json = HEADER) -> str:
    return json.dumps({**header, "traceEvents": events})


def et(nodes: list[Json]) -> str:
    return json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "start_ts": 100, "nodes": nodes})


def as_floats(text: str) -> str:
    return json.dumps(json.loads(text, parse_int=lambda digits: float(digits)))


def with_exponents(text: str) -> str:
    return with_whole_numbers(text.encode()).decode().replace(": 12,", ": 1.2e1,").replace(": 5,", ": 5E0,")


def reversed_members(text: str) -> str:
    return json.dumps(json.loads(text, object_pairs_hook=lambda pairs: dict(reversed(pairs))))


FORMS: dict[str, Callable[[str], str]] = {
    "integers as floats": as_floats,
    "exponents": with_exponents,
    "no white space": lambda text: json.dumps(json.loads(text), separators=(",", ":")),
    "a line for each token": lambda text: json.dumps(json.loads(text), indent=1, separators=(" ,", " : ")),
    "members in another order": reversed_members,
    "escapes in keys": lambda text: (
        text.replace('"traceEvents"', r'"trac\u0065Events"')
        .replace('"nodes"', r'"nod\u0065s"')
        .replace('"ph"', r'"\u0070h"')
        .replace('"id"', r'"\u0069d"')
    ),
    "escapes in texts": lambda text: text.replace("aten::", r"\u0061ten::").replace("float", r"\u0066loat"),
}


def timeline_tables(path: Path, text: str) -> dict[str, pl.DataFrame]:
    path.write_text(text)
    found = tracebraid.read_timeline(path)
    assert [finding.code for finding in found.findings] == []
    return {
        **found.tables,
        "process_groups": found.process_groups,
        "header": pl.DataFrame([repr(found.header)]),
    }


def et_tables(path: Path, text: str) -> dict[str, pl.DataFrame]:
    path.write_text(text)
    found = tracebraid.read_execution_trace(path)
    assert [finding.code for finding in found.findings] == []
    names = ("nodes", "values", "collectives", "extra_attrs", "process_groups", "tensors", "tensor_uses")
    return {name: getattr(found, name) for name in names}


def same(first: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    assert [name for name, table in first.items() if not table.equals(other[name])] == []


@pytest.mark.parametrize("form", FORMS)
def test_a_kineto_trace_in_another_form_has_the_same_tables(tmp_path: Path, form: str) -> None:
    first = timeline_tables(tmp_path / "kineto_trace_0.json", kineto(EVENTS))
    assert {table.name for table in KINETO_TABLES} <= first.keys()
    other = timeline_tables(tmp_path / "kineto_trace_0.json", FORMS[form](kineto(EVENTS)))
    if form == "members in another order":
        first["header"] = other["header"]
    same(first, other)


@pytest.mark.parametrize("form", FORMS)
def test_an_execution_trace_in_another_form_has_the_same_tables(tmp_path: Path, form: str) -> None:
    first = et_tables(tmp_path / "torch_et_0.json", et(NODES))
    same(first, et_tables(tmp_path / "torch_et_0.json", FORMS[form](et(NODES))))


@pytest.mark.parametrize("order", [[5, 4, 3, 2, 1, 0], [3, 0, 2, 5, 1, 4]])
def test_where_nodes_are_in_a_file_changes_nothing(tmp_path: Path, order: list[int]) -> None:
    first = et_tables(tmp_path / "torch_et_0.json", et(NODES))
    assert first["process_groups"].height == 1
    same(first, et_tables(tmp_path / "torch_et_0.json", et([NODES[at] for at in order])))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("[1.0, 2e0, 1.5e1, 1000.000E-3]", "[1, 2, 15, 1]"),
        ("[0.5, 1.25e1, -3.0]", "[0.5, 1.25e1, -3]"),
        ('["1.0", "2e0"]', '["1.0", "2e0"]'),
        ("[1e300, 1e999999999, 9007199254740993.0]", "[1e300, 1e999999999, 9007199254740993.0]"),
    ],
)
def test_whole_numbers_are_written_as_integers(text: str, plain: str) -> None:
    assert with_whole_numbers(text.encode()) == plain.encode()


def test_short_texts_get_the_spacing_and_escapes_of_their_writer() -> None:
    assert plain_text(rb'[ 1.0,"\u0061" ,[] ]', indent=0) == b'[1, "a", []]'
    assert plain_text(rb'[ 1.0,"\u0061" ,[] ]', indent=-1, whole=False) == b'[1.0,"a",[]]'
    assert plain_text(rb'["\ud800"]', indent=0) == rb'["\ud800"]'
