"""The nodes of a chunk as typed objects, as far as their columns need it, for any schema.

The usual chunk is decoded at once, into objects that keep shapes, types, strides and attributes as JSON text. If one
node of a chunk does not fit, each object is decoded on its own and checked in full.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tracebraid.importers.execution_trace.argument_lists import ArgumentLists, arguments_of
from tracebraid.importers.execution_trace.node_attributes import INT_ATTRS, Attr
from tracebraid.importers.json_stream.recover import Recovered
from tracebraid.model.column import INT64_NULL

__all__ = [
    "FLAT_NODES",
    "NODES",
    "NOT_NODES",
    "FlatNode",
    "Node",
    "argument_lists",
    "attribute_texts",
    "flat_argument_lists",
    "node_text",
]

NOT_NODES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What is raised where a text is no list of nodes."""

_Raw = msgspec.Raw
_Id = Annotated[int, msgspec.Meta(ge=INT64_NULL + 1, le=2**63 - 1)]


class Node(msgspec.Struct, gc=False):
    """A node since schema 1.0.2."""

    id: _Id
    name: str
    ctrl_deps: int | None
    inputs: _Raw
    outputs: _Raw
    attrs: _Raw


class FlatNode(msgspec.Struct, gc=False):
    """A node of schema 1.0.1, whose attributes are members of it, and fit their columns."""

    id: _Id
    name: str
    parent: int | None = None
    rf_id: _Id | None = None
    fw_parent: _Id | None = None
    seq_id: _Id | None = None
    scope: _Id | None = None
    tid: _Id | None = None
    fw_tid: _Id | None = None
    op_schema: str | None = None
    inputs: list[_Raw] = []
    input_shapes: _Raw = _Raw(b"[]")
    input_types: _Raw = _Raw(b"[]")
    outputs: list[_Raw] = []
    output_shapes: _Raw = _Raw(b"[]")
    output_types: _Raw = _Raw(b"[]")


class _CheckedArguments(msgspec.Struct, gc=False):
    values: list[_Raw] = []
    shapes: list[_Raw] = []
    types: list[str] = []
    strides: list[_Raw] = []


class _CheckedNode(msgspec.Struct, gc=False):
    id: _Id
    name: str
    ctrl_deps: int | None
    inputs: _CheckedArguments
    outputs: _CheckedArguments
    attrs: list[Attr]


class _CheckedFlatNode(msgspec.Struct, gc=False):
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
    inputs: list[_Raw] = []
    input_shapes: list[_Raw] = []
    input_types: list[str] = []
    outputs: list[_Raw] = []
    output_shapes: list[_Raw] = []
    output_types: list[str] = []


NODES = msgspec.json.Decoder(list[Node])
"""Decodes nodes since schema 1.0.2."""
FLAT_NODES = msgspec.json.Decoder(list[FlatNode])
"""Decodes nodes of schema 1.0.1."""

_CHECKED = msgspec.json.Decoder(_CheckedNode)
_CHECKED_FLAT = msgspec.json.Decoder(_CheckedFlatNode)


def argument_lists(nodes: list[Node]) -> ArgumentLists:
    """The arguments of nodes.

    Raises:
        MsgspecError: what a node has there is none.
    """
    return arguments_of([bytes(text) for node in nodes for text in (node.inputs, node.outputs)])


def flat_argument_lists(nodes: list[FlatNode]) -> ArgumentLists:
    """The arguments of nodes of schema 1.0.1."""
    values = [values for node in nodes for values in (node.inputs, node.outputs)]
    layouts = [
        b'"shapes":%b,"types":%b}' % (bytes(shapes), bytes(types))
        for node in nodes
        for shapes, types in ((node.input_shapes, node.input_types), (node.output_shapes, node.output_types))
    ]
    return ArgumentLists(values, layouts)


def attribute_texts(nodes: list[Node]) -> list[bytes]:
    """The attributes of each node, as JSON."""
    return [bytes(node.attrs) for node in nodes]


def node_text(item: Recovered) -> bytes:
    """The JSON of an object that is a node, in the form since schema 1.0.2.

    Raises:
        MsgspecError, UnicodeDecodeError: it is no node.
    """
    try:
        _CHECKED.decode(item.text)
    except msgspec.ValidationError:
        return msgspec.json.encode(_unflattened(_CHECKED_FLAT.decode(item.text)))
    return item.text


def _unflattened(flat: _CheckedFlatNode) -> _CheckedNode:
    attrs = [
        Attr(name, "", value)
        for name in (*INT_ATTRS, "op_schema")
        if (value := getattr(flat, name)) is not None
    ]
    return _CheckedNode(
        flat.id,
        flat.name,
        flat.parent,
        _CheckedArguments(flat.inputs, flat.input_shapes, flat.input_types),
        _CheckedArguments(flat.outputs, flat.output_shapes, flat.output_types),
        attrs,
    )
