"""The fields of many protobuf messages at once, in columns: one level of the wire format, for any schema."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "Fields",
    "Packed",
    "Slices",
    "fields_of",
    "packed_varints",
]

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
        minimal: whether its value or length is written in as few bytes as it can be.
        readable: of each message, not of each field; one that is not has no fields here.
    """

    row: _Ints
    number: _Ints
    wire_type: NDArray[np.uint8]
    value: _Ints
    stop: _Ints
    minimal: NDArray[np.bool_]
    readable: NDArray[np.bool_]

    def of(self, number: int) -> _Ints:
        """The rows of one field."""
        return np.flatnonzero(self.number == number)

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
    none = np.zeros((5, 0), dtype=np.int64)
    found = np.zeros((5, _take_apart(array, messages.spans(), none, readable)), dtype=np.int64)
    _take_apart(array, messages.spans(), found, readable)
    row, tag, value, stop, minimal = found
    wire_type = (tag & 7).astype(np.uint8)
    return Fields(row, tag >> 3, wire_type, value, stop, minimal.astype(np.bool_), readable)


@dataclass(frozen=True, eq=False)
class Packed:
    """The numbers of packed lists.

    Args:
        row: the list of each number.
        value: its bits.
        readable: of each list whether it consists of whole numbers.
        minimal: of each list whether all are written in as few bytes as they can be.
    """

    row: _Ints
    value: _Ints
    readable: NDArray[np.bool_]
    minimal: NDArray[np.bool_]


def packed_varints(data: bytes, lists: Slices) -> Packed:
    """Take packed lists apart."""
    array = np.frombuffer(data, dtype=np.uint8)
    found = np.zeros((2, int((lists.stop - lists.start).sum())), dtype=np.int64)
    flags = np.ones((2, len(lists)), dtype=np.bool_)
    count = _unpack(array, lists.spans(), found, flags)
    return Packed(found[0, :count], found[1, :count], flags[0], flags[1])


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
                if minimal == 0 or tag < 8 or tag >= 1 << 32 or kind == 3 or kind == 4 or kind > 5:
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
            if count < found.shape[1]:
                found[0, count], found[1, count], found[2, count] = message, tag, number
                found[3, count], found[4, count] = at, minimal
            count += 1
            tag, minimal = 0, 1
        if not readable[message]:
            count = before
    return count


@compiled
def _unpack(data: _Bytes, spans: _Ints, found: _Ints, flags: NDArray[np.bool_]) -> int:
    """Fill in the list and the bits of each number, and the flags of each list; returns how many numbers there are."""
    count = 0
    for row in range(len(spans)):
        number, shift = np.int64(0), 0
        for at in range(spans[row, 0], spans[row, 1]):
            if shift == 63 and data[at] > 1:
                break
            number |= (np.int64(data[at]) & 0x7F) << shift
            shift += 7
            if data[at] < 0x80:
                if data[at] == 0 and shift > 7:
                    flags[1, row] = False
                found[0, count] = row
                found[1, count] = number
                count += 1
                number, shift = np.int64(0), 0
        flags[0, row] = shift == 0
    return count
