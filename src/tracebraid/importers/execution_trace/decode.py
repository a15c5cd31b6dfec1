"""One chunk of an Execution Trace, from bytes to columns. Runs in worker processes too, so it loads no polars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import ColumnData, TableData, int_column, interned_column
from tracebraid.importers.execution_trace.argument_lists import values_table
from tracebraid.importers.execution_trace.attributes import collective_table
from tracebraid.importers.execution_trace.node_attributes import (
    INT_ATTRS,
    Attributes,
    attributes_of,
    no_extras,
)
from tracebraid.importers.execution_trace.nodes import (
    FLAT_NODES,
    NODES,
    NOT_NODES,
    FlatNode,
    Node,
    argument_lists,
    attribute_texts,
    flat_argument_lists,
    node_text,
)
from tracebraid.importers.json_stream.chunks import NODE_MEMBER, shape_of
from tracebraid.importers.json_stream.collector import without_collector
from tracebraid.importers.json_stream.recover import recover
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.issue import Issue

__all__ = ["NodeColumns", "decode_nodes"]

_Ints = NDArray[np.int64]

_CODES = {
    FindingCode.EVENT_UNREADABLE: FindingCode.NODE_UNREADABLE,
    FindingCode.EVENT_MENDED: FindingCode.NODE_MENDED,
}
"""What `recover` finds in an array of objects, by what it is called in one of nodes."""


@dataclass
class NodeColumns:
    """What one chunk of a file holds.

    Args:
        tables: columns by table name.
        owners: for each row of the tables beside `nodes` the number of its node in the chunk.
        issues: what could not be read unchanged.
    """

    tables: dict[str, TableData] = field(default_factory=dict)
    owners: dict[str, _Ints] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)


def decode_nodes(data: bytes, start: int, first_key: bytes) -> NodeColumns:
    """Decode the nodes of a chunk, of any schema.

    Args:
        data: nodes with commas between them.
        start: offset of the first byte in the file.
        first_key: see `chunks.ArrayFile`.
    """
    with without_collector():
        array = b"".join((b"[", data, b"]"))
        for columns_of in (_columns, _flat_columns):
            try:
                return columns_of(array)
            except NOT_NODES:
                continue
        return _read_each(data, start, first_key)


def _read_each(data: bytes, start: int, first_key: bytes) -> NodeColumns:
    """The nodes of a chunk that does not decode as a whole, and what could not be read."""
    kept, issues = recover(data, start, shape_of(first_key, NODE_MEMBER))
    nodes: list[tuple[int, bytes]] = []
    for item in kept:
        try:
            nodes.append((item.byte, node_text(item)))
        except NOT_NODES as error:
            issues.append(_unreadable(error, item.byte, item.text))
    issues = [replace(issue, code=_CODES.get(issue.code, issue.code)) for issue in issues]
    try:
        found = _columns(_array(nodes))
    except NOT_NODES:
        # Values that are nested as deep as the decoder can follow: some lie a level too deep for the whole array.
        nodes, too_deep = _readable_alone(nodes)
        issues += too_deep
        found = _columns(_array(nodes))
    found.issues = issues
    return found


def _readable_alone(nodes: list[tuple[int, bytes]]) -> tuple[list[tuple[int, bytes]], list[Issue]]:
    readable: list[tuple[int, bytes]] = []
    issues: list[Issue] = []
    for byte, text in nodes:
        try:
            _columns(_array([(byte, text)]))
        except NOT_NODES as error:
            issues.append(_unreadable(error, byte, text))
        else:
            readable.append((byte, text))
    return readable, issues


def _unreadable(error: Exception, byte: int, text: bytes) -> Issue:
    loss = Loss(1, 1, len(text))
    return Issue.of(FindingCode.NODE_UNREADABLE, byte, loss, case=FindingCase.NO_NODE, error=str(error))


def _array(nodes: list[tuple[int, bytes]]) -> bytes:
    return b"[" + b",".join(text for _, text in nodes) + b"]"


def _columns(array: bytes) -> NodeColumns:
    nodes = NODES.decode(array)
    node_ids = _ids(nodes)
    values, values_owner = values_table(node_ids, argument_lists(nodes))
    attributes = attributes_of(node_ids, attribute_texts(nodes))
    parents = int_column(list(map(attrgetter("ctrl_deps"), nodes)))
    return _result(nodes, (node_ids, parents), (values, values_owner), attributes)


def _flat_columns(array: bytes) -> NodeColumns:
    nodes = FLAT_NODES.decode(array)
    node_ids = _ids(nodes)
    columns: dict[str, ColumnData] = {
        name: int_column(list(map(attrgetter(name), nodes))) for name in INT_ATTRS
    }
    columns["op_schema"] = interned_column(map(attrgetter("op_schema"), nodes))
    nothing = np.empty(0, dtype=np.int64)
    attributes = Attributes(
        columns,
        {"collectives": collective_table(nothing, []), "extra_attrs": no_extras()},
        {"collectives": nothing, "extra_attrs": nothing},
    )
    parents = int_column(list(map(attrgetter("parent"), nodes)))
    values = values_table(node_ids, flat_argument_lists(nodes))
    return _result(nodes, (node_ids, parents), values, attributes)


def _ids(nodes: Sequence[Node | FlatNode]) -> _Ints:
    return np.fromiter(map(attrgetter("id"), nodes), dtype=np.int64, count=len(nodes))


def _result(
    nodes: Sequence[Node | FlatNode],
    ids: tuple[_Ints, _Ints],
    values: tuple[TableData, _Ints],
    attributes: Attributes,
) -> NodeColumns:
    columns: dict[str, ColumnData] = {
        "node_id": ids[0],
        "name": interned_column(map(attrgetter("name"), nodes)),
        "parent_id": ids[1],
        **attributes.columns,
    }
    return NodeColumns(
        {"nodes": TableData(len(nodes), columns), "values": values[0], **attributes.tables},
        {"values": values[1], **attributes.owners},
    )
