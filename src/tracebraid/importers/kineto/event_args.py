"""The arguments of events, decoded in bulk for each category into the columns that the schema declares."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import (
    ColumnData,
    TableData,
    first_of,
    float_column,
    int_column,
    interned_column,
    missing,
    renamed,
    taken,
)
from tracebraid.model.column import INT64_NULL, Column, Kind, Table
from tracebraid.model.schema import DETAIL_TABLES_BY_CATEGORY

__all__ = ["Extras", "SeenKeys", "decode_args", "extras_table"]

Extras = list[tuple[int, str, bytes]]
"""(event, key, JSON text) of each argument that has no column, or does not fit it."""

_INT64 = Annotated[int, msgspec.Meta(ge=INT64_NULL + 1, le=2**63 - 1)]
_AMOUNT_LIMIT = 2**50
"""More bytes or elements (a PB) are treated as damage: no process holds or sends so many, and the sum of thousands of
them fits int64."""
_AMOUNT = Annotated[int, msgspec.Meta(ge=-_AMOUNT_LIMIT, le=_AMOUNT_LIMIT)]
_AMOUNT_NAMES = ("_bytes", "_nelems")
_INTEGERS = (_INT64 | None, _AMOUNT | None)
_TYPES: dict[Kind, tuple[Any, Any]] = {
    Kind.INT: (_INT64 | None, INT64_NULL),
    Kind.FLOAT: (float | None, float("nan")),
    Kind.BOOL: (bool | None, None),
    Kind.NAME: (str | None, None),
    Kind.TEXT: (str | int | None, None),
    Kind.JSON: (msgspec.Raw, msgspec.Raw()),
    Kind.INT3: (tuple[_INT64, _INT64, _INT64] | None, None),
    Kind.INTS: (str | tuple[_INT64, ...] | None, None),
}
"""How each kind of column is decoded, and the value for a missing one."""


class SeenKeys(dict[str, frozenset[str]]):
    """The arguments that the events of each category had so far in a file; most chunks have no others.

    A struct of these keys alone, which refuses any other, decodes faster than one of all keys of the category.
    """


def decode_args(
    category: str, events: NDArray[np.int64], args: list[msgspec.Raw], seen: SeenKeys
) -> tuple[dict[str, TableData], Extras]:
    """Columns of the arguments of the events of one category.

    Args:
        category: Kineto's category.
        events: event numbers, one per row.
        args: the JSON text of each event's arguments; empty where it has none.
        seen: the keys seen so far in this file; new ones are added.

    Returns:
        The tables' columns by table name, and what has no column or does not fit it.
    """
    tables = DETAIL_TABLES_BY_CATEGORY.get(category, ())
    if tables:
        blob = b"[" + b",".join(args) + b"]"
        keys = seen.get(category) or _keys_of(args[:1])
        rows = _decoded(blob, tables, keys, strict=True)
        if rows is None:
            keys = _keys_of(args) | keys
            rows = _decoded(blob, tables, keys, strict=True)
        if rows is not None and len(rows) == len(args):
            seen[category] = keys
            return _tables(tables, keys, events, rows, [])
    return _decode_args_leniently(tables, events, [text if _is_something(text) else b"{}" for text in args])


def _decode_args_leniently(
    tables: tuple[Table, ...], events: NDArray[np.int64], texts: list[Any]
) -> tuple[dict[str, TableData], Extras]:
    """`decode_args` where some event has no arguments, or arguments without a column or of another type."""
    if not tables:
        return {}, _extras(events, texts, frozenset())
    known = _known_keys(tables)
    rows = _decoded(b"[" + b",".join(texts) + b"]", tables, known, strict=False)
    if rows is not None:
        extras = _extras(events, texts, known)
    else:
        rows, extras = _convert_each(events, texts, _struct(tables, known, False))
    return _tables(tables, known, events, rows, extras)


def _keys_of(args: list[msgspec.Raw]) -> frozenset[str]:
    """All keys of some arguments, as far as they are objects."""
    try:
        rows = msgspec.json.decode(b"[" + b",".join(args) + b"]", type=list[dict[str, msgspec.Raw]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return frozenset()
    return frozenset().union(*rows)


def _decoded(blob: bytes, tables: tuple[Table, ...], keys: frozenset[str], strict: bool) -> list[Any] | None:
    """The rows as structs of these keys; None if some row does not fit, or (`strict`) has another key."""
    kind = _struct(tables, keys & _known_keys(tables), strict)
    try:
        rows: list[Any] = msgspec.json.decode(blob, type=list[kind])  # type: ignore[valid-type]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return rows


def _tables(
    tables: tuple[Table, ...],
    keys: frozenset[str],
    events: NDArray[np.int64],
    rows: list[Any],
    extras: Extras,
) -> tuple[dict[str, TableData], Extras]:
    """The columns of rows that were decoded as structs of these keys."""
    found = {table.name: _table(table, keys, events, rows, extras) for table in tables}
    for table in tables[1:]:
        _keep_rows_with_values(found, table.name)
    return found, extras


def _is_something(text: msgspec.Raw) -> bool:
    return memoryview(text).nbytes > 4 or bytes(text) not in (b"", b"null")


def _table(
    table: Table, keys: frozenset[str], events: NDArray[np.int64], rows: list[Any], extras: Extras
) -> TableData:
    """The columns of these keys; the others are left out."""
    columns: dict[str, ColumnData] = {"event_id": events}
    for column, fields in _fields(table):
        for field, key in fields:
            if key not in keys:
                continue
            values = list(map(attrgetter(field), rows))
            if column.kind is Kind.INTS:
                values = _lists(events, key, values, extras)
            data = _column(column, values)
            columns[column.name] = first_of(columns[column.name], data) if column.name in columns else data
    return TableData(len(rows), columns)


def _column(column: Column, values: list[Any]) -> ColumnData:
    if column.kind is Kind.INT:
        return int_column(values)
    if column.kind is Kind.FLOAT:
        return float_column(values)
    if column.kind is Kind.JSON:
        return renamed(interned_column(map(bytes, values), missing=(b"", b"null")), _unindented)
    if column.kind is Kind.TEXT:
        return interned_column(None if value is None else str(value) for value in values)
    return interned_column(values)


def _unindented(text: Any) -> bytes:
    """JSON text with Kineto's spacing, without the line breaks of an indenting writer."""
    try:
        return msgspec.json.format(bytes(text), indent=0)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return bytes(text)


def _lists(events: NDArray[np.int64], key: str, values: list[Any], extras: Extras) -> list[Any]:
    """Lists written as strings (`"[0, 1]"`), each distinct string parsed once; other strings go to extras."""
    parsed: dict[str, tuple[int, ...] | None] = {}
    for text in {value for value in values if isinstance(value, str)}:
        try:
            parsed[text] = msgspec.json.decode(text, type=tuple[_INT64, ...])
        except msgspec.MsgspecError:
            parsed[text] = None
    for row, value in enumerate(values):
        if isinstance(value, str) and parsed[value] is None:
            extras.append((int(events[row]), key, msgspec.json.encode(value)))
    return [parsed[value] if isinstance(value, str) else value for value in values]


def _keep_rows_with_values(found: dict[str, TableData], name: str) -> None:
    """Of a table that holds only some events of its category, the rows with a value; no table without any."""
    data = found.pop(name)
    filled = np.zeros(data.rows, dtype=np.bool_)
    for column, values in data.columns.items():
        if column != "event_id":
            filled |= ~missing(values)
    if filled.any():
        found[name] = taken(data, np.flatnonzero(filled))


@cache
def _fields(table: Table) -> tuple[tuple[Column, tuple[tuple[str, str], ...]], ...]:
    """Each column with its (field of the struct, key in the file), one for each key."""
    return tuple(
        (column, tuple((f"{table.name}_{column.name}_{i}", key) for i, key in enumerate(column.keys)))
        for column in table.columns
        if column.keys
    )


@cache
def _known_keys(tables: tuple[Table, ...]) -> frozenset[str]:
    return frozenset(key for table in tables for column in table.columns for key in column.keys)


@cache
def _struct(tables: tuple[Table, ...], keys: frozenset[str], strict: bool) -> type:
    """A struct of these of a category's arguments, which refuses others (`strict`) or ignores them."""
    members = [
        (column, field, key)
        for table in tables
        for column, fields in _fields(table)
        for field, key in fields
        if key in keys
    ]
    return msgspec.defstruct(
        "Args",
        [(field, *_type_of(column)) for column, field, _ in members],
        rename={field: key for _, field, key in members},
        gc=False,
        forbid_unknown_fields=strict,
    )


def _type_of(column: Column) -> tuple[Any, Any]:
    """How a column is decoded, and the value for a missing one."""
    kind, absent = _TYPES[column.kind]
    is_amount = column.kind is Kind.INT and column.name.endswith(_AMOUNT_NAMES)
    return (_AMOUNT | None if is_amount else kind), absent


def _extras(events: NDArray[np.int64], texts: list[Any], known: frozenset[str]) -> Extras:
    blob = b"[" + b",".join(texts) + b"]"
    try:
        rows = msgspec.json.decode(blob, type=list[dict[str, msgspec.Raw]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        rows = [_members(bytes(text)) for text in texts]
    return [
        (int(event), key, bytes(value))
        for event, row in zip(events, rows, strict=True)
        for key, value in row.items()
        if key not in known
    ]


def _convert_each(events: NDArray[np.int64], texts: list[Any], struct: type) -> tuple[list[Any], Extras]:
    """Rows where some value has another type than its column: taken where it converts, else left to extras."""
    rows: list[Any] = []
    extras: Extras = []
    types = {f.encode_name: f.type for f in msgspec.structs.fields(struct)}
    for event, text in zip(events, texts, strict=True):
        fitting: dict[str, Any] = {}
        for key, raw in _members(bytes(text)).items():
            try:
                if bytes(raw) != b"null" or key not in types:
                    fitting[key] = _fit(raw, types[key])
            except (KeyError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
                extras.append((int(event), key, bytes(raw)))
        rows.append(msgspec.convert(fitting, struct))
    return rows, extras


def _members(text: bytes) -> dict[str, msgspec.Raw]:
    """The members of an object, each as JSON text; something else as the one member `args`."""
    for candidate in (text, text.decode("utf-8", "replace").encode()):
        try:
            return msgspec.json.decode(candidate, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = msgspec.json.encode(text.decode("utf-8", "replace"))
    return {"args": msgspec.Raw(text)}


def _fit(raw: msgspec.Raw, kind: Any) -> Any:
    """A value as the type of a column; ValueError or MsgspecError where it is of another."""
    if kind is msgspec.Raw:
        return raw
    value = msgspec.json.decode(raw)
    if isinstance(value, str) and kind in _INTEGERS:
        value = int(value, 0)
    if isinstance(value, str) and kind == _TYPES[Kind.INT3][0]:
        value = msgspec.json.decode(value)
    return msgspec.convert(value, kind, strict=False)


def extras_table(extras: Extras) -> TableData:
    """The extras as columns of the table `extra_args`."""
    columns: dict[str, ColumnData] = {
        "event_id": np.array([event for event, _, _ in extras], dtype=np.int64),
        "key": interned_column([key for _, key, _ in extras]),
        "value": interned_column([value for _, _, value in extras]),
    }
    return TableData(len(extras), columns)
