"""The arguments of events, decoded in bulk for each category into the columns that the schema declares."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.model.column import INT64_NULL, Column, Kind, Table
from tracebraid.model.schema import DETAIL_TABLES_BY_CATEGORY
from tracebraid.read.columns import (
    ColumnData,
    TableData,
    first_of,
    float_column,
    int_column,
    interned_column,
)

__all__ = ["Extras", "decode_args", "extras_table"]

_RAW_KINDS = (Kind.JSON, Kind.INT3, Kind.INTS)
Extras = list[tuple[int, str, bytes]]
"""(event, key, JSON text) of each argument that has no column."""


def decode_args(
    category: str, events: NDArray[np.int64], args: list[msgspec.Raw]
) -> tuple[dict[str, TableData], Extras]:
    """Columns of the arguments of the events of one category.

    Args:
        category: Kineto's category.
        events: event numbers, one per row.
        args: the JSON text of each event's arguments; empty where it has none.

    Returns:
        The tables' columns by table name, and what has no column.
    """
    tables = DETAIL_TABLES_BY_CATEGORY.get(category, ())
    texts = [text if memoryview(text).nbytes > 2 else b"{}" for text in args]
    if not tables:
        return {}, _extras(events, texts, frozenset())
    blob = b"[" + b",".join(texts) + b"]"
    strict, loose = _structs(tables)
    extras: Extras = []
    try:
        rows: list[Any] = msgspec.json.decode(blob, type=list[strict])  # type: ignore[valid-type]
    except (msgspec.ValidationError, UnicodeDecodeError):
        extras = _extras(events, texts, _known_keys(tables))
        try:
            rows = msgspec.json.decode(blob, type=list[loose])  # type: ignore[valid-type]
        except (msgspec.ValidationError, UnicodeDecodeError):
            rows, unfit = _convert_one_by_one(events, texts, loose)
            extras += unfit
    return _tables(tables, events, rows, blob), extras


def _tables(
    tables: tuple[Table, ...], events: NDArray[np.int64], rows: list[Any], blob: bytes
) -> dict[str, TableData]:
    found = {tables[0].name: _table(tables[0], events, rows, blob)}
    for table in tables[1:]:
        _, first, key = _fields(table)[0]
        if not _has_key(blob, key):
            continue
        present = [i for i, row in enumerate(rows) if getattr(row, first) is not None]
        found[table.name] = _table(table, events[present], [rows[i] for i in present], blob)
    return found


def _table(table: Table, events: NDArray[np.int64], rows: list[Any], blob: bytes) -> TableData:
    """The columns of which some row has a value; the others are left out."""
    columns: dict[str, ColumnData] = {"event_id": events}
    for column in table.columns[1:]:
        fields = [field for c, field, key in _fields(table) if c is column and _has_key(blob, key)]
        if not fields:
            continue
        columns[column.name] = _column(column, list(map(attrgetter(fields[0]), rows)))
        for other in fields[1:]:
            rest = _column(column, list(map(attrgetter(other), rows)))
            columns[column.name] = first_of(columns[column.name], rest)
    return TableData(len(rows), columns)


def _has_key(blob: bytes, key: str) -> bool:
    return b'"%s"' % key.encode() in blob


def _column(column: Column, values: list[Any]) -> ColumnData:
    if column.kind is Kind.INT:
        return int_column(values)
    if column.kind is Kind.FLOAT:
        return float_column(values)
    if column.kind in _RAW_KINDS:
        return interned_column(map(bytes, values), missing=(b"", b"null"))
    return interned_column(values)


@cache
def _fields(table: Table) -> tuple[tuple[Column, str, str], ...]:
    """(column, field of the struct, key in the file), for each key of each column."""
    return tuple(
        (column, f"{table.name}_{column.name}_{i}", key)
        for column in table.columns
        for i, key in enumerate(column.keys)
    )


@cache
def _known_keys(tables: tuple[Table, ...]) -> frozenset[str]:
    return frozenset(key for table in tables for _, _, key in _fields(table))


@cache
def _structs(tables: tuple[Table, ...]) -> tuple[type, type]:
    """The struct of a category's arguments, once refusing keys that it does not know and once not."""
    types: dict[Kind, tuple[Any, Any]] = {
        Kind.INT: (int | None, INT64_NULL),
        Kind.FLOAT: (float | None, float("nan")),
        Kind.BOOL: (bool | None, None),
        Kind.NAME: (str | None, None),
        Kind.TEXT: (str | None, None),
        **{kind: (msgspec.Raw, msgspec.Raw()) for kind in _RAW_KINDS},
    }
    names = {field: key for table in tables for _, field, key in _fields(table)}
    fields = [(field, *types[column.kind]) for table in tables for column, field, _ in _fields(table)]
    made = [
        msgspec.defstruct("Args", fields, rename=names, gc=False, forbid_unknown_fields=strict)
        for strict in (True, False)
    ]
    return made[0], made[1]


def _extras(events: NDArray[np.int64], texts: Iterable[Any], known: frozenset[str]) -> Extras:
    blob = b"[" + b",".join(texts) + b"]"
    try:
        rows = msgspec.json.decode(blob, type=list[dict[str, msgspec.Raw]])
    except (msgspec.ValidationError, UnicodeDecodeError):
        return [(int(event), "args", bytes(text)) for event, text in zip(events, texts, strict=True)]
    return [
        (int(event), key, bytes(value))
        for event, row in zip(events, rows, strict=True)
        for key, value in row.items()
        if key not in known
    ]


def _convert_one_by_one(
    events: NDArray[np.int64], texts: list[Any], struct: type
) -> tuple[list[Any], Extras]:
    """Rows where some value has another type than its column: taken where it converts, else left to extras."""
    rows: list[Any] = []
    unfit: Extras = []
    fields = {f.encode_name: f.type for f in msgspec.structs.fields(struct)}
    for event, text in zip(events, texts, strict=True):
        try:
            rows.append(msgspec.json.decode(text, type=struct))
            continue
        except (msgspec.ValidationError, UnicodeDecodeError):
            members = _members(bytes(text))
        fitting: dict[str, Any] = {}
        for key, value in members.items():
            kind = fields.get(key)
            if kind is None:
                continue
            try:
                fitting[key] = _fit(value, kind)
            except (msgspec.ValidationError, ValueError):
                unfit.append((int(event), key, json.dumps(value).encode()))
        rows.append(msgspec.convert(fitting, struct))
    return rows, unfit


def _members(text: bytes) -> dict[str, Any]:
    value = json.loads(text.decode("utf-8", "replace"), strict=False)
    return value if isinstance(value, dict) else {}


def _fit(value: Any, kind: Any) -> Any:
    if kind is msgspec.Raw:
        return msgspec.Raw(json.dumps(value).encode())
    if isinstance(value, str) and kind == int | None:
        return int(value, 0)
    return msgspec.convert(value, kind, strict=False)


def extras_table(extras: Extras) -> TableData:
    """The extras as columns of the table `extra_args`."""
    columns: dict[str, ColumnData] = {
        "event_id": np.array([event for event, _, _ in extras], dtype=np.int64),
        "key": interned_column([key for _, key, _ in extras]),
        "value": interned_column([value for _, _, value in extras]),
    }
    return TableData(len(extras), columns)
