"""Columns of nodes, from their bytes."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra.wire.attributes import attribute_columns
from tracebraid.chakra.wire.fields import LENGTH, VARINT, Fields, Slices, fields_of, packed_varints
from tracebraid.chakra.wire.plain import (
    IO_FIELDS,
    NODE_FIELDS,
    NotPlainError,
    code_names,
    text_column,
    unexpected,
)
from tracebraid.model.chakra.codes import NodeType

__all__ = ["NodeColumns", "node_columns"]

_Ints = NDArray[np.int64]
_ID, _NAME, _TYPE, _CTRL_DEPS, _DATA_DEPS, _START, _DURATION, _INPUTS, _OUTPUTS, _ATTRIBUTES = range(1, 11)
_IO_MEMBERS = {1: "values", 2: "shapes", 3: "types"}


@dataclass(frozen=True, eq=False)
class NodeColumns:
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


def node_columns(data: bytes, nodes: Slices) -> NodeColumns:
    """Take nodes apart.

    Args:
        data: holds them.
        nodes: where each lies.

    Raises:
        NotPlainError: protobuf has to look at them first.
        UnicodeDecodeError: a text is no UTF-8.
        google.protobuf.message.DecodeError: an attribute is damaged.
    """
    fields = fields_of(data, nodes)
    wrong = unexpected(fields, NODE_FIELDS)
    for member in (_INPUTS, _OUTPUTS):
        wrong |= np.bincount(fields.row[fields.number == member], minlength=len(nodes)) > 1
    if wrong.any():
        raise NotPlainError
    count = len(nodes)
    names = fields.of(_NAME, LENGTH)
    start, duration = (_numbers(fields, member, count) for member in (_START, _DURATION))
    columns = {
        "node_id": pl.Series(_numbers(fields, _ID, count)),
        "name": text_column(data, fields.slices(names), fields.row[names], count).fill_null(""),
        "type": code_names(pl.Series(_numbers(fields, _TYPE, count).astype(np.int32)), NodeType),
        "start_time_micros": _positive(start, start > 0),
        "duration_micros": _positive(duration, duration >= 0),
    }
    columns |= _io_columns(data, fields, count)
    attributes = fields.of(_ATTRIBUTES, LENGTH)
    columns |= attribute_columns(data, fields.slices(attributes), fields.row[attributes], count)
    return NodeColumns(
        pl.DataFrame(columns),
        _deps(data, fields, _DATA_DEPS),
        _deps(data, fields, _CTRL_DEPS),
        {"start_time_micros": int((start < 0).sum()), "duration_micros": int((duration < 0).sum())},
    )


def _numbers(fields: Fields, member: int, count: int) -> _Ints:
    """A number of each node; 0 where it is not written, as protobuf has it."""
    rows = fields.of(member, VARINT)
    found = np.zeros(count, dtype=np.int64)
    found[fields.row[rows]] = fields.value[rows]
    return found


def _positive(values: _Ints, valid: NDArray[np.bool_]) -> pl.Series:
    return pl.select(pl.when(pl.Series(valid)).then(pl.Series(values))).to_series()


def _deps(data: bytes, fields: Fields, member: int) -> tuple[_Ints, _Ints]:
    """The row of each entry and its id, in the order of the file, packed or not."""
    lists, single = fields.of(member, LENGTH), fields.of(member, VARINT)
    of_list, ids = packed_varints(data, fields.slices(lists))
    position = np.concatenate([lists[of_list], single])
    order = np.argsort(position, kind="stable")
    return fields.row[position[order]], np.concatenate([ids, fields.value[single]])[order]


def _io_columns(data: bytes, fields: Fields, count: int) -> dict[str, pl.Series]:
    """`shapes`, `inputs` and `outputs`."""
    inputs = _io_texts(data, fields, _INPUTS, count)
    outputs = _io_texts(data, fields, _OUTPUTS, count)
    shapes = inputs.pop("shapes")
    return {"shapes": shapes, "inputs": _objects(inputs), "outputs": _objects(outputs)}


def _io_texts(data: bytes, fields: Fields, member: int, count: int) -> dict[str, pl.Series]:
    rows = fields.of(member, LENGTH)
    within = fields_of(data, fields.slices(rows))
    if unexpected(within, IO_FIELDS).any():
        raise NotPlainError
    found = {}
    for number, name in _IO_MEMBERS.items():
        texts = within.of(number, LENGTH)
        node = fields.row[rows[within.row[texts]]]
        found[name] = text_column(data, within.slices(texts), node, count)
    return found


def _objects(members: dict[str, pl.Series]) -> pl.Series:
    """JSON objects of the texts that are there; null where none is."""
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
