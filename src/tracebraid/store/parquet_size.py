"""How many values a Parquet file says that it holds: known from its end, before anything is decoded.

The end of the file is `FileMetaData` in Thrift's compact protocol (`src/main/thrift/parquet.thrift` of parquet-format).
Of it the numbers of rows of all row groups are read, and everything else is gone over.
"""

from __future__ import annotations

__all__ = ["values_of"]

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
_SCHEMA, _ROW_GROUPS, _ROWS_OF_GROUP = 2, 4, 3
"""Fields of `FileMetaData`, and of a `RowGroup`."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_DEPTH = 32
"""Deeper structures are none of Parquet's."""


def values_of(content: bytes) -> int:
    """The number of cells: rows of all row groups, times the elements of the schema.

    Args:
        content: the file.

    Raises:
        ValueError: it is no Parquet file.
    """
    if len(content) < 2 * len(_MAGIC) + _LENGTH_BYTES or not content.endswith(_MAGIC):
        raise ValueError("it is no Parquet file")
    end = len(content) - len(_MAGIC) - _LENGTH_BYTES
    size_bytes = int.from_bytes(content[end : end + _LENGTH_BYTES], "little")
    if size_bytes > end - len(_MAGIC):
        raise ValueError("it is no Parquet file: it is shorter than its end says")
    try:
        return _cells(content[end - size_bytes : end])
    except IndexError:
        raise ValueError("it is no Parquet file: its end is cut") from None


def _cells(data: bytes) -> int:
    at = number = rows = elements = 0
    while data[at]:
        kind, number, at = _field(data, at, number)
        if kind == _LIST and number in (_SCHEMA, _ROW_GROUPS):
            count, item, at = _head_of_list(data, at)
            for _ in range(count):
                if number == _ROW_GROUPS and item == _STRUCT:
                    of_group, at = _rows(data, at)
                    rows += of_group
                else:
                    at = _behind(data, at, item, _DEPTH)
            elements += count if number == _SCHEMA else 0
        else:
            at = _behind(data, at, kind, _DEPTH)
    return rows * elements


def _rows(data: bytes, at: int) -> tuple[int, int]:
    """The rows of a row group, and where it ends."""
    number = rows = 0
    while data[at]:
        kind, number, at = _field(data, at, number)
        if number == _ROWS_OF_GROUP and kind in _INTEGERS:
            raw, at = _varint(data, at)
            rows = abs(raw >> 1 ^ -(raw & 1))
        else:
            at = _behind(data, at, kind, _DEPTH)
    return rows, at + 1


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
