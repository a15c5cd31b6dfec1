"""The fields of many protobuf messages at once, in columns: one level of the wire format, for any schema."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

VARINT = 0
FIXED64 = 1
LENGTH = 2
FIXED32 = 5
"""Wire types. Groups (3 and 4) are no part of proto3: a message that holds one counts as unreadable."""


class Slices(Struct, frozen=True, eq=False):
    """Parts of some bytes.

    Args:
        start: of each part.
        stop: the byte after it.
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


class Fields(Struct, frozen=True, eq=False):
    """All fields of messages, in their order.

    Args:
        row: the message of each field, by its row.
        number: the field's number.
        wire_type: how its value is written.
        value: of a number its bits; of a text, a message or a packed list its first byte.
        stop: the byte after the value.
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
        """Locations of the values of some rows."""
        return Slices(self.value[rows], self.stop[rows])


def fields_of(data: bytes, messages: Slices) -> Fields:
    """Parse messages, one level deep."""
    array = np.frombuffer(data, dtype=np.uint8)
    readable = np.ones(len(messages), dtype=np.bool_)
    none = np.zeros((5, 0), dtype=np.int64)
    found = np.zeros((5, _decompose(array, messages.spans(), none, readable)), dtype=np.int64)
    _decompose(array, messages.spans(), found, readable)
    row, tag, value, stop, minimal = found
    wire_type = (tag & 7).astype(np.uint8)
    return Fields(row, tag >> 3, wire_type, value, stop, minimal.astype(np.bool_), readable)


class Packed(Struct, frozen=True, eq=False):
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
    """Parse packed lists."""
    array = np.frombuffer(data, dtype=np.uint8)
    found = np.zeros((2, int((lists.stop - lists.start).sum())), dtype=np.int64)
    flags = np.ones((2, len(lists)), dtype=np.bool_)
    count = _unpack(array, lists.spans(), found, flags)
    return Packed(found[0, :count], found[1, :count], flags[0], flags[1])


@native_loop
def _decompose(data: _Bytes, spans: _Ints, found: _Ints, readable: NDArray[np.bool_]) -> int:
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


@native_loop
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


def numbered_texts(data: bytes, slices: Slices) -> tuple[_Ints, list[bytes]]:
    """The number of each text, in the order of first appearance, and the texts by number."""
    if not len(slices):
        return np.zeros(0, dtype=np.int64), []
    array = np.frombuffer(data, dtype=np.uint8)
    # At most half of the slots are taken, so that a search ends soon.
    slots = np.full(1 << (2 * len(slices)).bit_length(), -1, dtype=np.int64)
    first = np.zeros(len(slices), dtype=np.int64)
    number = np.zeros(len(slices), dtype=np.int64)
    count = _number(array, slices.spans(), slots, first, number)
    rows = first[:count]
    starts, stops = slices.start[rows].tolist(), slices.stop[rows].tolist()
    return number, [data[start:stop] for start, stop in zip(starts, stops, strict=True)]


@native_loop
def _number(data: NDArray[np.uint8], spans: _Ints, slots: _Ints, first: _Ints, number: _Ints) -> int:
    """Fill in the number of each text and the first row with each number; returns how many there are."""
    count, last = 0, len(slots) - 1
    for row in range(len(spans)):
        start, size = spans[row, 0], spans[row, 1] - spans[row, 0]
        # FNV-1a, of 64 bits.
        mixed = np.uint64(0xCBF29CE484222325)
        for at in range(size):
            mixed = (mixed ^ np.uint64(data[start + at])) * np.uint64(0x100000001B3)
        slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(last))
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot] = known = count
                first[count] = row
                count += 1
            other = spans[first[known], 0]
            same = spans[first[known], 1] - other == size
            at = 0
            while same and at < size:
                same = data[other + at] == data[start + at]
                at += 1
            if same:
                number[row] = known
                break
            slot = (slot + 1) & last
    return count


_MOST_NUMBER = 33
_WIRE_TYPES = 8

NODE_FIELDS: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((1, 3, 6, 7), (VARINT,)),
    **dict.fromkeys((2, 8, 9, 10), (LENGTH,)),
    **dict.fromkeys((4, 5), (LENGTH, VARINT)),
}
IO_FIELDS: dict[int, tuple[int, ...]] = dict.fromkeys((1, 2, 3), (LENGTH,))
ATTRIBUTE_FIELDS: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((1, 2, 29, 31, *range(4, 33, 2)), (LENGTH,)),
    **dict.fromkeys((3, 21, 25), (FIXED64,)),
    **dict.fromkeys((5, 19, 23), (FIXED32,)),
    **dict.fromkeys((7, 9, 11, 13, 15, 17, 27), (VARINT,)),
}
"""The numbers of the fields of `Node`, `IOInfo` and `AttributeProto`, and how each may be written."""


class NotPlainError(Exception):
    """Messages that deviate from the schema, or are damaged, and must be parsed by protobuf."""


def unexpected(fields: Fields, schema: Mapping[int, tuple[int, ...]]) -> NDArray[np.bool_]:
    """Return whether each message is damaged, or holds a field that the schema does not have so."""
    allowed = np.zeros((_MOST_NUMBER + 1, _WIRE_TYPES), dtype=np.bool_)
    for number, wire_types in schema.items():
        allowed[number, wire_types] = True
    wrong = ~allowed[np.minimum(fields.number, _MOST_NUMBER), fields.wire_type]
    found = ~fields.readable
    found[fields.row[wrong]] = True
    return found


def text_column(data: bytes, slices: Slices, rows: NDArray[np.int64], count: int) -> pl.Series:
    """Texts as a column with nulls."""
    number, texts = numbered_texts(data, slices)
    position = np.full(count, len(texts), dtype=np.int64)
    position[rows] = number
    known = pl.Series([*(text.decode() for text in texts), None], dtype=pl.String)
    return known.gather(pl.Series(position))


def code_names(numbers: pl.Series, codes: type[IntEnum]) -> pl.Series:
    """Codes by their names, and by their numbers where the schema has none."""
    names: list[str | None] = []
    unique = numbers.unique()
    for number in unique.to_list():
        known = number in codes.__members__.values()
        names.append(None if number is None else codes(number).name if known else str(number))
    texts = pl.Series(names, dtype=pl.String)
    # Of no rows at all the result would have the type of the numbers.
    found: pl.Series = (
        numbers.replace_strict(unique, texts, return_dtype=pl.String) if len(numbers) else texts
    )
    return found
