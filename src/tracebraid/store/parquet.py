"""Tables as the bytes of Parquet files, and back."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import polars as pl

from tracebraid.filesystem.compression import RATIO_AT_MOST, unpacked_at_most_bytes
from tracebraid.model.column import Table
from tracebraid.model.text_bytes import refuse_repeated_texts

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
_SCHEMA = 2
_ROW_GROUPS = 4
"""Fields of `FileMetaData`."""
_COLUMNS = 1
_ROWS = 3
"""Fields of `RowGroup`."""
_METADATA = 3
"""A field of `ColumnChunk`."""
_PACKED_OF_COLUMN = 7
_DATA_AT = 9
_DICTIONARY_AT = 11
"""Fields of `ColumnMetaData`."""
_UNPACKED = 2
_PACKED = 3
"""Fields of `PageHeader`."""
_FIELDS = 16
"""Fields with higher numbers are ignored in all of these."""
_TRUE = 1
_FALSE = 2
_BYTE = 3
_DOUBLE = 7
_BINARY = 8
_LIST = 9
_SET = 10
_MAP = 11
_STRUCT = 12
_INTEGERS = (4, 5, 6)
_VARINT_BITS = 70
"""64 bits, in sevens."""
_DEPTH = 32
"""Maximum nesting of Parquet's structures."""

_Struct = dict[int, tuple[int, int]]
"""Type and value offset by field."""


def values_of(content: bytes) -> int:
    """The number of cells: rows of all row groups, times the elements of the schema."""
    data = _end_of(content)
    try:
        top, _ = _struct(data, 0)
        kind, at = top.get(_SCHEMA, (0, 0))
        elements, _, _ = _head_of_list(data, at) if kind == _LIST else (0, 0, 0)
        return elements * sum(abs(_number(data, group, _ROWS)) for group in _structs(data, top, _ROW_GROUPS))
    except IndexError:
        raise ValueError("it is not a Parquet file: its end is truncated") from None


def pages_bytes(content: bytes) -> int:
    """Return how many bytes all pages unpack to, as their heads say."""
    data = _end_of(content)
    left_bytes = len(content)
    found = 0
    try:
        top, _ = _struct(data, 0)
        for group in _structs(data, top, _ROW_GROUPS):
            for chunk in _structs(data, group, _COLUMNS):
                kind, at = chunk.get(_METADATA, (0, 0))
                column, _ = _struct(data, at) if kind == _STRUCT else ({}, 0)
                start = _number(data, column, _DICTIONARY_AT) or _number(data, column, _DATA_AT)
                size_bytes = _number(data, column, _PACKED_OF_COLUMN)
                left_bytes -= size_bytes
                if left_bytes < 0 or size_bytes < 0 or not 0 <= start <= len(content):
                    raise ValueError("it is not a Parquet file: its columns overlap or lie outside it")
                found += _unpacked(content, start, start + size_bytes)
    except IndexError:
        raise ValueError("it is not a Parquet file: a page is truncated") from None
    return found


def _unpacked(content: bytes, at: int, stop: int) -> int:
    found = 0
    while at < stop:
        head, at = _struct(content, at)
        packed = _number(content, head, _PACKED)
        if packed < 0:
            raise ValueError("it is not a Parquet file: a page ends before it begins")
        found += abs(_number(content, head, _UNPACKED))
        at += packed
    return found


def _end_of(content: bytes) -> bytes:
    """`FileMetaData`."""
    if len(content) < 2 * len(_MAGIC) + _LENGTH_BYTES or not content.endswith(_MAGIC):
        raise ValueError("it is not a Parquet file")
    end = len(content) - len(_MAGIC) - _LENGTH_BYTES
    size_bytes = int.from_bytes(content[end : end + _LENGTH_BYTES], "little")
    if size_bytes > end - len(_MAGIC):
        raise ValueError("it is not a Parquet file: it is shorter than its end says")
    return content[end - size_bytes : end]


def _struct(data: bytes, at: int) -> tuple[_Struct, int]:
    """Parse the first fields of a structure; return them and its end."""
    found: _Struct = {}
    number = 0
    while data[at]:
        kind, number, at = _field(data, at, number)
        if 0 < number < _FIELDS:
            found[number] = kind, at
        at = _behind(data, at, kind, _DEPTH)
    return found, at + 1


def _structs(data: bytes, members: _Struct, number: int) -> Iterator[_Struct]:
    """The structures of a list."""
    kind, at = members.get(number, (0, 0))
    count, item, at = _head_of_list(data, at) if kind == _LIST else (0, 0, 0)
    for _ in range(count if item == _STRUCT else 0):
        found, at = _struct(data, at)
        yield found


def _number(data: bytes, members: _Struct, number: int) -> int:
    """An integer; 0 if there is none."""
    kind, at = members.get(number, (0, 0))
    if kind not in _INTEGERS:
        return 0
    raw, _ = _varint(data, at)
    return raw >> 1 ^ -(raw & 1)


def _field(data: bytes, at: int, before: int) -> tuple[int, int, int]:
    """The type of a field, its number, and where its value begins."""
    head = data[at]
    if head >> 4:
        return head & 15, before + (head >> 4), at + 1
    raw, at = _varint(data, at + 1)
    return head & 15, raw >> 1 ^ -(raw & 1), at


def _head_of_list(data: bytes, at: int) -> tuple[int, int, int]:
    """Return how many items a list has, of which type, and where the first begins."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    if count > len(data) - at:
        raise IndexError(count)
    return count, head & 15, at


def _behind(data: bytes, at: int, kind: int, depth: int) -> int:
    """Return the end of a value."""
    if kind in _INTEGERS:
        while data[at] > 0x7F:
            at += 1
        return at + 1
    if kind == _BINARY:
        size_bytes, at = _varint(data, at)
        return at + size_bytes
    if kind in (_TRUE, _FALSE):
        return at
    if kind == _STRUCT and depth:
        while data[at]:
            head = data[at]
            if head >> 4:
                at += 1
            else:
                _, at = _varint(data, at + 1)
            at = _behind(data, at, head & 15, depth - 1)
        return at + 1
    if kind in (_LIST, _SET) and depth:
        count, item, at = _head_of_list(data, at)
        for _ in range(count):
            # A boolean in a list is a byte.
            at = at + 1 if item in (_TRUE, _FALSE) else _behind(data, at, item, depth - 1)
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    raise ValueError(f"it is not a Parquet file: its end holds a value of type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift >= _VARINT_BITS:
            raise ValueError("it is not a Parquet file: it contains a number of more than 64 bits")


_LEVEL = 3
"""zstd's own default: of the 54 MB trace, level 9 makes 4 % less in twice the time."""
_PARQUET_ROWS = 1 << 18
"""Rows of a row group, the unit that readers of some steps skip or read."""

_BYTES_OF_VALUE = 8
_WITHOUT_NULL = {"events": ("event_id", "ts_ns", "dur_ns"), "et_nodes": ("node_id",)}
"""Columns for which readers expect a value in every row."""


def encoded(name: str, frame: pl.DataFrame) -> bytes:
    """A table as a Parquet file; the same rows give the same bytes, in any process. Events lie sorted by their start.

    Texts that repeat have a dictionary of the file's own, in which each stands once.
    """
    if name == "events":
        frame = frame.sort("ts_ns", "event_id")
    file = io.BytesIO()
    frame.rechunk().write_parquet(
        file, compression="zstd", compression_level=_LEVEL, row_group_size=_PARQUET_ROWS
    )
    return file.getvalue()


def decoded(name: str, table: Table, content: bytes) -> pl.DataFrame:
    """Decode the table of a Parquet file, in its original order."""
    frame = frame_of(content)
    if dict(frame.schema) != table.polars_schema():
        raise ValueError("its columns are not those of the table")
    if any(frame.get_column(column).null_count() for column in _WITHOUT_NULL.get(name, ())):
        raise ValueError("a column that has no null in any trace has some")
    return _in_order_of_ids(frame) if name == "events" else frame


def frame_of(content: bytes) -> pl.DataFrame:
    """Decode the table of a Parquet file."""
    refuse_expanding(content)
    try:
        frame = pl.read_parquet(io.BytesIO(content), use_statistics=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(str(error)) from None
    except pl.exceptions.PanicException as error:
        raise ValueError(f"the Parquet reader gave up ({error})") from None
    refuse_repeated_texts([frame], len(content))
    return frame


def refuse_expanding(content: bytes) -> None:
    """Reject a Parquet file with more or longer values than its size justifies."""
    size_bytes = max(values_of(content) * _BYTES_OF_VALUE, pages_bytes(content))
    if size_bytes > unpacked_at_most_bytes(len(content)):
        raise ValueError(f"it holds more than {RATIO_AT_MOST} times its size")


def _in_order_of_ids(events: pl.DataFrame) -> pl.DataFrame:
    """Restore the order of events in the trace; their ids are rows, so no sorting is needed."""
    ids = events.get_column("event_id").to_numpy()
    rows = np.arange(len(ids))
    if len(ids) and (ids.min() < 0 or ids.max() >= len(ids)):
        return events.sort("event_id")
    row_of_id = np.full(len(ids), len(ids))
    row_of_id[ids] = rows
    if (row_of_id == len(ids)).any():
        return events.sort("event_id")
    return events[row_of_id]
