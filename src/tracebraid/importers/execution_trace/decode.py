"""One piece of an Execution Trace, from bytes to columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np

from tracebraid.importers.columns import (
    ColumnData,
    TableData,
    int_column,
    interned_column,
)
from tracebraid.importers.execution_trace.attributes import collective_table, fits, fits_collective
from tracebraid.importers.execution_trace.tensors import tensor_table
from tracebraid.importers.json_stream.chunks import boundary_pattern
from tracebraid.importers.json_stream.collector import without_collector
from tracebraid.importers.json_stream.recover import Issue, salvage
from tracebraid.model.column import INT64_NULL, Kind

__all__ = ["NodeColumns", "decode_nodes"]


_Id = Annotated[int, msgspec.Meta(ge=INT64_NULL + 1, le=2**63 - 1)]


class _Values(msgspec.Struct, gc=False):
    values: list[msgspec.Raw] = []
    shapes: list[msgspec.Raw] = []
    types: list[str] = []
    strides: list[msgspec.Raw] = []


class _Attr(msgspec.Struct, gc=False):
    name: str
    type: str = ""
    value: int | float | str | bool | list[Any] | dict[str, Any] | None = None


class _Node(msgspec.Struct, gc=False):
    """A node since schema 1.0.2."""

    id: _Id
    name: str
    ctrl_deps: int | None
    inputs: _Values
    outputs: _Values
    attrs: list[_Attr]


class _FlatNode(msgspec.Struct, gc=False):
    """A node of schema 1.0.1, whose attributes are members of it."""

    id: _Id
    name: str
    parent: int | None = None
    rf_id: int | None = None
    fw_parent: int | None = None
    seq_id: int | None = None
    scope: int | None = None
    tid: int | None = None
    fw_tid: int | None = None
    op_schema: str | None = None
    inputs: list[msgspec.Raw] = []
    input_shapes: list[msgspec.Raw] = []
    input_types: list[str] = []
    outputs: list[msgspec.Raw] = []
    output_shapes: list[msgspec.Raw] = []
    output_types: list[str] = []


_NODE_LIST = msgspec.json.Decoder(list[_Node])
_FLAT_LIST = msgspec.json.Decoder(list[_FlatNode])
_INT_ATTRS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
_TEXT_ATTRS = ("op_schema", "kernel_backend", "kernel_file")
_CODES = {"event-unreadable": "node-unreadable", "event-mended": "node-mended"}
"""What `recover` finds in an array of objects, by what it is called in one of nodes."""
_NODE_ATTR_KINDS = {**dict.fromkeys(_INT_ATTRS, Kind.INT), **dict.fromkeys(_TEXT_ATTRS, Kind.NAME)}


@dataclass
class NodeColumns:
    """What one piece of a file holds.

    Args:
        tables: columns by table name.
        issues: what could not be read as it stood.
        repeated: ids of nodes that were left out because an earlier node has that id.
    """

    tables: dict[str, TableData] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)


def decode_nodes(data: bytes, start: int, first_key: bytes, seen: set[int]) -> NodeColumns:
    """Decode the nodes of a piece, of whatever schema.

    Args:
        data: nodes with commas between them.
        start: place of the first byte in the file.
        first_key: see `pieces.ArrayFile`.
        seen: ids of the nodes before; those of this piece are added.
    """
    with without_collector():
        return _columns(b"".join((b"[", data, b"]")), start, first_key, seen)


def _columns(array: bytes, start: int, first_key: bytes, seen: set[int]) -> NodeColumns:
    issues: list[Issue] = []
    try:
        nodes = _decode(array)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        nodes, issues = _read_one_by_one(array[1:-1], start, first_key)
    nodes, repeated = _first_of_each(nodes, seen)
    values = _values_table(nodes)
    tables = {
        "nodes": _nodes_table(nodes),
        "values": values,
        "tensor_uses": tensor_table(values),
        **_attr_tables(nodes),
    }
    return NodeColumns(tables, issues, repeated)


def _first_of_each(nodes: list[_Node], seen: set[int]) -> tuple[list[_Node], list[int]]:
    kept: list[_Node] = []
    repeated: list[int] = []
    for node in nodes:
        if node.id in seen:
            repeated.append(node.id)
        else:
            seen.add(node.id)
            kept.append(node)
    return kept, repeated


def _decode(array: bytes) -> list[_Node]:
    try:
        return _NODE_LIST.decode(array)
    except msgspec.ValidationError:
        return [_unflatten(node) for node in _FLAT_LIST.decode(array)]


def _unflatten(flat: _FlatNode) -> _Node:
    attrs = [
        _Attr(name, "", value)
        for name in (*_INT_ATTRS, "op_schema")
        if (value := getattr(flat, name)) is not None
    ]
    return _Node(
        flat.id,
        flat.name,
        flat.parent,
        _Values(flat.inputs, flat.input_shapes, flat.input_types),
        _Values(flat.outputs, flat.output_shapes, flat.output_types),
        attrs,
    )


def _read_one_by_one(data: bytes, start: int, first_key: bytes) -> tuple[list[_Node], list[Issue]]:
    kept, issues = salvage(data, start, boundary_pattern(first_key))
    nodes: list[_Node] = []
    for one in kept:
        try:
            nodes += _decode(b"[" + one.text + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            issues.append(
                Issue("node-unreadable", f"an object is no node and was left out ({error})", one.byte)
            )
    named = [Issue(_CODES.get(i.code, i.code), i.message, i.byte) for i in issues]
    return nodes, named


def _nodes_table(nodes: list[_Node]) -> TableData:
    attrs: dict[str, list[Any]] = {name: [None] * len(nodes) for name in (*_INT_ATTRS, *_TEXT_ATTRS)}
    for row, node in enumerate(nodes):
        for attr in node.attrs:
            if attr.name in attrs and fits(_NODE_ATTR_KINDS[attr.name], attr.value):
                attrs[attr.name][row] = attr.value
    columns: dict[str, ColumnData] = {
        "node_id": int_column(list(map(attrgetter("id"), nodes))),
        "name": interned_column(map(attrgetter("name"), nodes)),
        "parent_id": int_column(list(map(attrgetter("ctrl_deps"), nodes))),
    }
    for name in _INT_ATTRS:
        columns[name] = int_column(attrs[name])
    for name in _TEXT_ATTRS:
        columns[name] = interned_column(attrs[name])
    return TableData(len(nodes), columns)


def _values_table(nodes: list[_Node]) -> TableData:
    sides = [side for node in nodes for side in (node.inputs, node.outputs)]
    for side in sides:
        _pad(side)
    counts = np.array([len(side.values) for side in sides], dtype=np.int64)
    owner = np.repeat(np.array([node.id for node in nodes], dtype=np.int64), 2)
    is_output = np.tile(np.array([False, True]), len(nodes))
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    total = int(counts.sum())
    flags = [False, True]
    columns: dict[str, ColumnData] = {
        "node_id": np.repeat(owner, counts),
        "is_output": interned_column(flags[i] for i in np.repeat(is_output, counts).tolist()),
        "position": np.arange(total, dtype=np.int64) - starts,
        "type": interned_column(chain.from_iterable(side.types for side in sides)),
        "value": interned_column(
            map(bytes, chain.from_iterable(side.values for side in sides)), missing=(b"",)
        ),
        "shape": interned_column(
            map(bytes, chain.from_iterable(side.shapes for side in sides)), missing=(b"",)
        ),
        "strides": interned_column(
            map(bytes, chain.from_iterable(side.strides for side in sides)), missing=(b"",)
        ),
    }
    return TableData(total, columns)


def _pad(side: _Values) -> None:
    """Make the four lists of one side equally long: Triton's stream has no stride, old schemas have none at all."""
    count = len(side.values)
    if not count == len(side.shapes) == len(side.types) == len(side.strides):
        side.shapes = [*side.shapes, *[msgspec.Raw()] * count][:count]
        side.types = [*side.types, *[""] * count][:count]
        side.strides = [*side.strides, *[msgspec.Raw()] * count][:count]


def _attr_tables(nodes: list[_Node]) -> dict[str, TableData]:
    """The tables `collectives` and `extra_attrs`; the latter holds what has no column, or does not fit it."""
    collective_rows: dict[int, dict[str, Any]] = {}
    extra: list[tuple[int, str, str, bytes]] = []
    for node in nodes:
        for attr in node.attrs:
            kind = _NODE_ATTR_KINDS.get(attr.name)
            if fits_collective(attr.name, attr.value):
                collective_rows.setdefault(node.id, {})[attr.name] = attr.value
            elif kind is None or not fits(kind, attr.value):
                extra.append((node.id, attr.name, attr.type, msgspec.json.encode(attr.value)))
    extra_columns: dict[str, ColumnData] = {
        "node_id": np.array([row[0] for row in extra], dtype=np.int64),
        "key": interned_column([row[1] for row in extra]),
        "type": interned_column([row[2] for row in extra]),
        "value": interned_column([row[3] for row in extra]),
    }
    return {
        "collectives": collective_table(collective_rows),
        "extra_attrs": TableData(len(extra), extra_columns),
    }
