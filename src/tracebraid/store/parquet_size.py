"""How much a Parquet file holds: known from its end and the heads of its pages, before anything is decoded.

The end of the file is `FileMetaData` in Thrift's compact protocol (`src/main/thrift/parquet.thrift` of parquet-format),
and so is the `PageHeader` before each page. A reader takes as much memory for a page as its head says, even for one
value.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["pages_bytes", "values_of"]

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
_SCHEMA, _ROW_GROUPS = 2, 4
"""Fields of `FileMetaData`."""
_COLUMNS, _ROWS = 1, 3
"""Fields of `RowGroup`."""
_METADATA = 3
"""A field of `ColumnChunk`."""
_PACKED_OF_COLUMN, _DATA_AT, _DICTIONARY_AT = 7, 9, 11
"""Fields of `ColumnMetaData`."""
_UNPACKED, _PACKED = 2, 3
"""Fields of `PageHeader`."""
_FIELDS = 16
"""Fields with higher numbers are not looked at, in any of these."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_VARINT_BITS = 70
"""64 bits, in sevens."""
_DEPTH = 32
"""Deeper structures are none of Parquet's."""

_Struct = dict[int, tuple[int, int]]
"""Of each field the type, and where its value begins."""


def values_of(content: bytes) -> int:
    """The number of cells: rows of all row groups, times the elements of the schema.

    Args:
        content: the file.

    Raises:
        ValueError: it is no Parquet file.
    """
    data = _end_of(content)
    try:
        top, _ = _struct(data, 0)
        kind, at = top.get(_SCHEMA, (0, 0))
        elements, _, _ = _head_of_list(data, at) if kind == _LIST else (0, 0, 0)
        return elements * sum(abs(_number(data, group, _ROWS)) for group in _structs(data, top, _ROW_GROUPS))
    except IndexError:
        raise ValueError("it is no Parquet file: its end is cut") from None


def pages_bytes(content: bytes) -> int:
    """How many bytes all pages unpack to, as their heads say.

    Args:
        content: the file.

    Raises:
        ValueError: it is no Parquet file, or several of its columns lie in the same pages.
    """
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
                    raise ValueError("it is no Parquet file: its columns do not lie in it, each for itself")
                found += _unpacked(content, start, start + size_bytes)
    except IndexError:
        raise ValueError("it is no Parquet file: a page is cut") from None
    return found


def _unpacked(content: bytes, at: int, stop: int) -> int:
    found = 0
    while at < stop:
        head, at = _struct(content, at)
        packed = _number(content, head, _PACKED)
        if packed < 0:
            raise ValueError("it is no Parquet file: a page ends before it begins")
        found += abs(_number(content, head, _UNPACKED))
        at += packed
    return found


def _end_of(content: bytes) -> bytes:
    """`FileMetaData`."""
    if len(content) < 2 * len(_MAGIC) + _LENGTH_BYTES or not content.endswith(_MAGIC):
        raise ValueError("it is no Parquet file")
    end = len(content) - len(_MAGIC) - _LENGTH_BYTES
    size_bytes = int.from_bytes(content[end : end + _LENGTH_BYTES], "little")
    if size_bytes > end - len(_MAGIC):
        raise ValueError("it is no Parquet file: it is shorter than its end says")
    return content[end - size_bytes : end]


def _struct(data: bytes, at: int) -> tuple[_Struct, int]:
    """The first fields of a structure, and where it ends."""
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
    """An integer; 0 where there is none."""
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
    """How many items a list has, of which type, and where the first begins."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    if count > len(data) - at:
        raise IndexError(count)
    return count, head & 15, at


def _behind(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where a value ends."""
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
    raise ValueError(f"it is no Parquet file: its end holds a value of type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift >= _VARINT_BITS:
            raise ValueError("it is no Parquet file: it holds a number of more than 64 bits")
