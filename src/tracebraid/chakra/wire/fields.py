"""The fields of many protobuf messages at once, in columns: one level of the wire format, for any schema."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled

__all__ = ["FIXED32", "FIXED64", "LENGTH", "VARINT", "Fields", "Slices", "fields_of", "packed_varints"]

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types. Groups (3 and 4) are no part of proto3: a message that holds one counts as unreadable."""


@dataclass(frozen=True, eq=False)
class Slices:
    """Parts of some bytes.

    Args:
        start: of each part.
        stop: the byte behind it.
    """

    start: _Ints
    stop: _Ints

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Slices:
        """Some of them."""
        return Slices(self.start[rows], self.stop[rows])

    def spans(self) -> _Ints:
        """Starts and stops in two columns, as compiled functions take them."""
        return np.column_stack([self.start, self.stop])


@dataclass(frozen=True, eq=False)
class Fields:
    """All fields of messages, in their order.

    Args:
        row: the message of each field, by its row.
        number: the field's number.
        wire_type: how its value is written.
        value: of a number its bits; of a text, a message or a packed list its first byte.
        stop: the byte behind the value.
        minimal: whether its tag, and its value or length, are written in as few bytes as they can be.
        readable: of each message, not of each field; one that is not has no fields here.
    """

    row: _Ints
    number: _Ints
    wire_type: NDArray[np.uint8]
    value: _Ints
    stop: _Ints
    minimal: NDArray[np.bool_]
    readable: NDArray[np.bool_]

    def of(self, number: int, *wire_types: int) -> _Ints:
        """The rows of one field."""
        found = self.number == number
        return np.flatnonzero(found & np.isin(self.wire_type, wire_types))

    def slices(self, rows: _Ints) -> Slices:
        """Where the values of some rows lie."""
        return Slices(self.value[rows], self.stop[rows])


def fields_of(data: bytes, messages: Slices) -> Fields:
    """Take messages apart, one level deep.

    Args:
        data: holds them.
        messages: where they lie in it.
    """
    array = np.frombuffer(data, dtype=np.uint8)
    readable = np.ones(len(messages), dtype=np.bool_)
    none = np.zeros((0, 5), dtype=np.int64)
    found = np.zeros((_take_apart(array, messages.spans(), none, readable), 5), dtype=np.int64)
    _take_apart(array, messages.spans(), found, readable)
    row, tag, value, stop, minimal = (np.ascontiguousarray(column) for column in found.T)
    return Fields(row, tag >> 3, (tag & 7).astype(np.uint8), value, stop, minimal.astype(np.bool_), readable)


def packed_varints(data: bytes, lists: Slices) -> tuple[_Ints, _Ints]:
    """The numbers of packed lists: of each its list, and its bits.

    A list whose last number has no end, or with a number of more than 10 bytes, has none after it.
    """
    array = np.frombuffer(data, dtype=np.uint8)
    most = int((lists.stop - lists.start).sum())
    found = np.zeros((most, 2), dtype=np.int64)
    count = _unpack(array, lists.start, lists.stop, found)
    return found[:count, 0].copy(), found[:count, 1].copy()


@compiled
def _take_apart(data: _Bytes, spans: _Ints, found: _Ints, readable: NDArray[np.bool_]) -> int:
    """Fill in fields as far as there is room for them; returns how many there are."""
    count = 0
    for message in range(len(spans)):
        at, end, before = spans[message, 0], spans[message, 1], count
        tag, kind, minimal = 0, 0, 1
        # A varint each time: a tag, or the value or length behind one.
        while readable[message] and (tag != 0 or at < end):
            number, shift = np.int64(0), 0
            while at < end and shift < 63 and data[at] >= 0x80:
                number |= (np.int64(data[at]) & 0x7F) << shift
                at += 1
                shift += 7
            last = np.int64(data[at]) if at < end else 0x80
            readable[message] = last < (2 if shift == 63 else 0x80)
            if shift > 0 and last == 0:
                minimal = 0
            number |= last << shift
            at += 1
            size = np.int64(0)
            if tag == 0:
                tag, kind = number, number & 7
                if tag < 8 or tag >= 1 << 32 or kind == 3 or kind == 4 or kind > 5:
                    readable[message] = False
                if kind == 0 or kind == 2:
                    continue
                size, number = 8 if kind == 1 else 4, 0
            elif kind == 2:
                size, number = number, at
            if size < 0 or size > end - at:
                readable[message] = False
                break
            for byte in range(size if kind != 2 else 0):
                number |= np.int64(data[at + byte]) << (8 * byte)
            at += size
            if count < len(found):
                found[count, 0], found[count, 1], found[count, 2] = message, tag, number
                found[count, 3], found[count, 4] = at, minimal
            count += 1
            tag, minimal = 0, 1
        if not readable[message]:
            count = before
    return count


@compiled
def _unpack(data: _Bytes, start: _Ints, stop: _Ints, found: _Ints) -> int:
    count = 0
    for row in range(len(start)):
        number, shift = 0, 0
        for at in range(start[row], stop[row]):
            if shift > 63:
                break
            number |= (np.int64(data[at]) & 0x7F) << shift
            shift += 7
            if data[at] < 0x80:
                found[count, 0] = row
                found[count, 1] = number
                count += 1
                number, shift = 0, 0
    return count
