"""Columns of what `Node.attr` holds, from its bytes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra.wire.attribute_columns import ATTRIBUTE_COLUMNS, AttributeKind
from tracebraid.chakra.wire.attribute_values import TYPE_ONLY, kind_of, value_of
from tracebraid.chakra.wire.fields import LENGTH, Fields, Slices, fields_of
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.plain import ATTRIBUTE_FIELDS, NotPlainError, code_names, text_column, unexpected
from tracebraid.chakra.wire.texts import numbered_texts
from tracebraid.model.chakra.codes import CollectiveCommType

__all__ = ["attribute_columns"]

_Ints = NDArray[np.int64]
_NAME, _DOC_STRING = 1, 2
_MOST_INT64 = 2**63 - 1


@dataclass(frozen=True, eq=False)
class _Held:
    """All attributes of some nodes.

    Args:
        node: the row of each attribute's node, rising.
        slices: where each lies.
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
    """The columns of `ATTRIBUTE_COLUMNS`, and `attributes`.

    Args:
        data: holds the attributes.
        attributes: where each lies.
        node: the row of its node, rising.
        count: number of nodes.

    Raises:
        NotPlainError: protobuf has to look at the nodes first.
        UnicodeDecodeError: a text is no UTF-8.
        google.protobuf.message.DecodeError: an attribute is damaged.
    """
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
    value[fields.row[fields.of(_DOC_STRING, LENGTH)]] = -1
    names = fields.of(_NAME, LENGTH)
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
    """Which attributes go into a column as they are: of its usual type, in its range."""
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
    """Of each node its further attributes; and of columns the values by node that have another type than usual."""
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
    """The value of an attribute of a column's name, where it fits the column; None where it does not."""
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
