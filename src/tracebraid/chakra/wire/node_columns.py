"""Columns of nodes, from their bytes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import CollectiveCommType, NodeType
from tracebraid.chakra.schema import NodeDeps
from tracebraid.chakra.wire.fields import (
    ATTRIBUTE_FIELDS,
    IO_FIELDS,
    LENGTH,
    NODE_FIELDS,
    Fields,
    NotPlainError,
    Slices,
    code_names,
    fields_of,
    numbered_texts,
    packed_varints,
    text_column,
    unexpected,
)
from tracebraid.chakra.wire.messages import TYPE_ONLY, kind_of, messages, value_of
from tracebraid.chakra.wire.writing import ATTRIBUTE_COLUMNS, AttributeKind

_Ints = NDArray[np.int64]
_NAME = 1
_DOC_STRING = 2
_MOST_INT64 = 2**63 - 1


class _Held(Struct, frozen=True, eq=False):
    """All attributes of some nodes.

    Args:
        node: the row of each attribute's node, rising.
        slices: the location of each.
        column: the column of its name; -1: none.
        first: whether it is the first of its node with a column's name.
        fields: of all attributes.
        value: the row of the field that holds its value; -1: it has none, or has a text of documentation beside it.
    """

    node: _Ints
    slices: Slices
    column: _Ints
    first: NDArray[np.bool_]
    fields: Fields
    value: _Ints


def attribute_columns(data: bytes, attributes: Slices, node: _Ints, count: int) -> dict[str, pl.Series]:
    """The columns of `ATTRIBUTE_COLUMNS`, and `attributes`."""
    held = _held(data, attributes, node)
    usual = _usual(held)
    columns = {}
    for index, (name, kind) in enumerate(ATTRIBUTE_COLUMNS.items()):
        columns[name] = _column(data, held, np.flatnonzero(usual & (held.column == index)), kind, count)
    further, in_columns = _further(data, held, np.flatnonzero(~usual))
    for name, found in in_columns.items():
        columns[name] = columns[name].scatter(list(found), list(found.values()))
    columns["comm_type"] = code_names(columns["comm_type"], CollectiveCommType)
    texts: list[str | None] = [None] * count
    for row, members in further.items():
        texts[row] = msgspec.json.encode(members).decode()
    columns["attributes"] = pl.Series(texts, dtype=pl.String)
    return columns


def _held(data: bytes, attributes: Slices, node: _Ints) -> _Held:
    fields = fields_of(data, attributes)
    of_value = np.flatnonzero(fields.number > _DOC_STRING)
    wrong = unexpected(fields, ATTRIBUTE_FIELDS)
    wrong |= np.bincount(fields.row[of_value], minlength=len(attributes)) > 1
    if wrong.any():
        raise NotPlainError
    value = np.full(len(attributes), -1, dtype=np.int64)
    value[fields.row[of_value]] = of_value
    value[fields.row[fields.of(_DOC_STRING)]] = -1
    names = fields.of(_NAME)
    number, texts = numbered_texts(data, fields.slices(names))
    known = {name.encode(): index for index, name in enumerate(ATTRIBUTE_COLUMNS)}
    column = np.full(len(attributes), -1, dtype=np.int64)
    column[fields.row[names]] = np.array([known.get(text, -1) for text in texts], dtype=np.int64)[number]
    first = np.zeros(len(attributes), dtype=np.bool_)
    named = np.flatnonzero(column >= 0)
    key = node[named] * len(ATTRIBUTE_COLUMNS) + column[named]
    first[named[np.unique(key, return_index=True)[1]]] = True
    return _Held(node, attributes, column, first, fields, value)


def _usual(held: _Held) -> NDArray[np.bool_]:
    """Select attributes that fit a column directly: of its usual type and within its range."""
    kinds = np.array([kind.value for kind in ATTRIBUTE_COLUMNS.values()], dtype=np.int64)
    rows = np.flatnonzero(held.first & (held.value >= 0))
    kind = held.fields.number[held.value[rows]]
    fits = (kind != AttributeKind.UINT64.value) | (held.fields.value[held.value[rows]] >= 0)
    usual = np.zeros(len(held.slices), dtype=np.bool_)
    usual[rows[(kind == kinds[held.column[rows]]) & fits]] = True
    return usual


def _column(data: bytes, held: _Held, wanted: _Ints, kind: AttributeKind, count: int) -> pl.Series:
    """A column from the attributes of its name."""
    node, value = held.node[wanted], held.value[wanted]
    if kind is AttributeKind.STRING:
        return text_column(data, held.fields.slices(value), node, count)
    bits = held.fields.value[value]
    if kind is AttributeKind.BOOL:
        bits = bits != 0
    elif kind is AttributeKind.INT32:
        bits = bits.astype(np.int32).astype(np.int64)
    position = np.full(count, len(bits), dtype=np.int64)
    position[node] = np.arange(len(bits))
    dtype = pl.Boolean() if kind is AttributeKind.BOOL else pl.Int64()
    return pl.concat([pl.Series(bits, dtype=dtype), pl.Series([None], dtype=dtype)]).gather(
        pl.Series(position)
    )


def _further(
    data: bytes, held: _Held, rows: _Ints
) -> tuple[dict[int, dict[str, object]], dict[str, dict[int, object]]]:
    """Collect further attributes of each node, and column values of unusual type by node."""
    number, texts = numbered_texts(data, held.slices[rows])
    known = [messages().attribute.FromString(text) for text in texts]
    values = [value_of(attribute) for attribute in known]
    further: dict[int, dict[str, object]] = defaultdict(dict)
    in_columns: dict[str, dict[int, object]] = defaultdict(dict)
    nodes, firsts = held.node[rows].tolist(), held.first[rows].tolist()
    for node, first, index in zip(nodes, firsts, number.tolist(), strict=True):
        name, value = known[index].name, values[index]
        fitting = _fitting(known[index]) if first else None
        if fitting is not None:
            in_columns[name][node] = fitting
            doc = {"doc_string": known[index].doc_string} if known[index].doc_string else {}
            value = {TYPE_ONLY: kind_of(known[index])} | doc
        members = further[node]
        if name not in members:
            members[name] = value
        else:
            # A value that is a list stands in an object: a list is several attributes.
            before = members[name]
            members[name] = [*before, value] if isinstance(before, list) else [before, value]
    return further, in_columns


def _fitting(attribute: Any) -> int | bool | str | None:
    """The value of an attribute of a column's name, where it fits the column; None if it does not."""
    kind = kind_of(attribute)
    value = getattr(attribute, kind) if kind else None
    wanted = ATTRIBUTE_COLUMNS[attribute.name]
    if wanted is AttributeKind.STRING:
        return value if isinstance(value, str) else None
    if wanted is AttributeKind.BOOL:
        return bool(value) if isinstance(value, int) and value in (0, 1) else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value <= _MOST_INT64 else None


_ID, _NODE_COLUMNS_NAME, _TYPE, _CTRL_DEPS, _DATA_DEPS, _START, _DURATION, _INPUTS, _OUTPUTS, _ATTRIBUTES = (
    range(1, 11)
)
_IO_MEMBERS = {1: "values", 2: "shapes", 3: "types"}


class NodeColumns(Struct, frozen=True, eq=False):
    """Nodes of a part of a file.

    Args:
        frame: the columns of `CHAKRA_NODES`, with texts as texts.
        data_deps: the row of each entry, and the id that it waits for.
        ctrl_deps: likewise.
        too_large: values left out for being beyond 64 bits with a sign, by column.
    """

    frame: pl.DataFrame
    data_deps: tuple[_Ints, _Ints]
    ctrl_deps: tuple[_Ints, _Ints]
    too_large: dict[str, int]


class NodeLinks(Struct, frozen=True, eq=False):
    """Nodes of a part of a file, without their work.

    Args:
        node_id: of each.
        data_deps: the row of each entry, and the id that it waits for.
        ctrl_deps: likewise.
    """

    node_id: _Ints
    data_deps: tuple[_Ints, _Ints]
    ctrl_deps: tuple[_Ints, _Ints]


def node_links(data: bytes, nodes: Slices) -> NodeLinks:
    """Ids and dependencies of nodes."""
    fields = fields_of(data, nodes)
    if unexpected(fields, NODE_FIELDS).any():
        raise NotPlainError
    deps = (_deps(data, fields, member) for member in (_DATA_DEPS, _CTRL_DEPS))
    return NodeLinks(_numbers(fields, _ID, len(nodes)), *deps)


def joined_deps(parts: list[tuple[_Ints, _Ints]], counts: list[int]) -> NodeDeps:
    """Dependencies of parts of a file, one after another."""
    lists = [np.bincount(rows, minlength=count) for (rows, _), count in zip(parts, counts, strict=True)]
    first = np.zeros(sum(counts) + 1, dtype=np.int64)
    np.cumsum(np.concatenate(lists), out=first[1:])
    return NodeDeps(first, np.concatenate([ids for _, ids in parts]))


def node_columns(data: bytes, nodes: Slices) -> NodeColumns:
    """Parse nodes."""
    fields = fields_of(data, nodes)
    wrong = unexpected(fields, NODE_FIELDS)
    for member in (_INPUTS, _OUTPUTS):
        wrong |= np.bincount(fields.row[fields.number == member], minlength=len(nodes)) > 1
    if wrong.any():
        raise NotPlainError
    count = len(nodes)
    names = fields.of(_NODE_COLUMNS_NAME)
    start, duration = (_numbers(fields, member, count) for member in (_START, _DURATION))
    columns = {
        "node_id": pl.Series(_numbers(fields, _ID, count)),
        "name": text_column(data, fields.slices(names), fields.row[names], count).fill_null(""),
        "type": code_names(pl.Series(_numbers(fields, _TYPE, count).astype(np.int32)), NodeType),
        "start_time_micros": _positive(start, start > 0),
        "duration_micros": _positive(duration, duration >= 0),
    }
    columns |= _io_columns(data, fields, count)
    attributes = fields.of(_ATTRIBUTES)
    columns |= attribute_columns(data, fields.slices(attributes), fields.row[attributes], count)
    return NodeColumns(
        pl.DataFrame(columns),
        _deps(data, fields, _DATA_DEPS),
        _deps(data, fields, _CTRL_DEPS),
        {"start_time_micros": int((start < 0).sum()), "duration_micros": int((duration < 0).sum())},
    )


def _numbers(fields: Fields, member: int, count: int) -> _Ints:
    """A number of each node; 0 if it is not written, as protobuf has it."""
    rows = fields.of(member)
    found = np.zeros(count, dtype=np.int64)
    found[fields.row[rows]] = fields.value[rows]
    return found


def _positive(values: _Ints, valid: NDArray[np.bool_]) -> pl.Series:
    return pl.select(pl.when(pl.Series(valid)).then(pl.Series(values))).to_series()


def _deps(data: bytes, fields: Fields, member: int) -> tuple[_Ints, _Ints]:
    """The row of each entry and its id, in the order of the file, packed or not."""
    rows = fields.of(member)
    is_list = fields.wire_type[rows] == LENGTH
    lists, single = rows[is_list], rows[~is_list]
    packed = packed_varints(data, fields.slices(lists))
    if not packed.readable.all():
        raise NotPlainError
    position = np.concatenate([lists[packed.row], single])
    order = np.argsort(position, kind="stable")
    return fields.row[position[order]], np.concatenate([packed.value, fields.value[single]])[order]


def _io_columns(data: bytes, fields: Fields, count: int) -> dict[str, pl.Series]:
    """`shapes`, `inputs` and `outputs`."""
    inputs = _io_texts(data, fields, _INPUTS, count)
    outputs = _io_texts(data, fields, _OUTPUTS, count)
    shapes = inputs.pop("shapes")
    return {"shapes": shapes, "inputs": _objects(inputs), "outputs": _objects(outputs)}


def _io_texts(data: bytes, fields: Fields, member: int, count: int) -> dict[str, pl.Series]:
    rows = fields.of(member)
    within = fields_of(data, fields.slices(rows))
    if unexpected(within, IO_FIELDS).any():
        raise NotPlainError
    found = {}
    for number, name in _IO_MEMBERS.items():
        texts = within.of(number)
        node = fields.row[rows[within.row[texts]]]
        found[name] = text_column(data, within.slices(texts), node, count)
    return found


def _objects(members: dict[str, pl.Series]) -> pl.Series:
    """JSON objects of the texts that exist; null if none is."""
    frame = pl.DataFrame(members)
    unique = frame.unique(maintain_order=True)
    texts = [
        msgspec.json.encode({name: text for name, text in row.items() if text}).decode()
        if any(row.values())
        else None
        for row in unique.iter_rows(named=True)
    ]
    known = unique.with_columns(pl.Series("object", texts, dtype=pl.String))
    joined = frame.join(known, on=list(members), how="left", nulls_equal=True, maintain_order="left")
    return joined["object"]
