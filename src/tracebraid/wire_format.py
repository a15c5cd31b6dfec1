"""Varints and arrays of protobuf messages: all messages of an array are laid out and written column by column.

A part is a field, or a nested message, of every message of an array: it knows its size in each of them, and writes
itself at given positions. So no Python runs for each message. The format is protobuf's wire format: a tag, which is
the field's number and its wire type, then a varint, 8 bytes, or a length and that many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_Buffer = NDArray[np.uint8]
_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_GROUP_BITS = 7
_LONGEST = 10
"""Bytes of the longest varint, of 64 bits."""


class Part(Protocol):
    """A field of every message of an array.

    Attributes:
        sizes: its bytes in each message.
    """

    sizes: Ints

    def write(self, out: _Buffer, at: Ints) -> None:
        """Write it into each message at these positions."""


def encoded(field: int | None, parts: Sequence[Part]) -> bytes:
    """An array of messages, each as a field of the message around them."""
    messages = Message(field, parts)
    ends = np.cumsum(messages.sizes)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    messages.write(out, ends - messages.sizes)
    return out.tobytes()


def number_field(field: int, value: int) -> bytes:
    """A single field that is an integer or a boolean."""
    return _varint(field << 3 | _VARINT) + _varint(value % (1 << 64))


def bytes_field(field: int, content: bytes) -> bytes:
    """A single field that is a text, or a nested message."""
    return _varint(field << 3 | _LENGTH) + _varint(len(content)) + content


def length_delimited(content: bytes) -> bytes:
    """A message behind its length alone, as in a file of messages."""
    return _varint(len(content)) + content


class Constant:
    """The same bytes in every message, such as those of `number_field`."""

    def __init__(self, content: bytes, count: int) -> None:
        self._content = content
        self.sizes: Ints = np.full(count, len(content), dtype=np.int64)

    def write(self, out: _Buffer, at: Ints) -> None:
        """See `Part`."""
        _write_bytes(out, at, self._content)


class Varints:
    """An integer, or a boolean, of each message; below 0 it takes 10 bytes, as protobuf has it.

    Args:
        field: the field's number; None: an item of a packed list, which has no tag.
        values: of each message.
    """

    def __init__(self, field: int | None, values: NDArray[np.integer]) -> None:
        self._tag = _tag(field, _VARINT)
        self._values = values.astype(np.int64, copy=False).view(np.uint64)
        self._lengths = _varint_sizes(self._values)
        self.sizes = self._lengths + len(self._tag)

    def write(self, out: _Buffer, at: Ints) -> None:
        """See `Part`."""
        _write_bytes(out, at, self._tag)
        _write_varints(out, at + len(self._tag), self._values, self._lengths)


class Fixed64s:
    """8 bytes of each message, little-endian: a double, or an unsigned integer."""

    def __init__(self, field: int, values: NDArray[np.float64] | NDArray[np.uint64]) -> None:
        self._tag = _tag(field, _FIXED64)
        kind = "<f8" if values.dtype.kind == "f" else "<u8"
        self._bytes = np.ascontiguousarray(values, dtype=kind).view(np.uint8).reshape(-1, 8)
        self.sizes = np.full(len(values), len(self._tag) + 8, dtype=np.int64)

    def write(self, out: _Buffer, at: Ints) -> None:
        """See `Part`."""
        _write_bytes(out, at, self._tag)
        out[(at + len(self._tag))[:, None] + np.arange(8)] = self._bytes


class Bytes:
    """A text of each message, as UTF-8."""

    def __init__(self, field: int, texts: Sequence[bytes]) -> None:
        self._tag = _tag(field, _LENGTH)
        self._content = np.frombuffer(b"".join(texts), dtype=np.uint8)
        self._lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        self._heads = _varint_sizes(self._lengths.view(np.uint64))
        self.sizes = len(self._tag) + self._heads + self._lengths

    def write(self, out: _Buffer, at: Ints) -> None:
        """See `Part`."""
        _write_bytes(out, at, self._tag)
        start = at + len(self._tag)
        _write_varints(out, start, self._lengths.view(np.uint64), self._heads)
        ends = np.cumsum(self._lengths)
        shift = start + self._heads - (ends - self._lengths)
        out[np.repeat(shift, self._lengths) + np.arange(len(self._content))] = self._content


class Message:
    """A nested message of each message.

    Args:
        field: the field's number; None: it has no tag, only its length.
        parts: its own.
    """

    def __init__(self, field: int | None, parts: Sequence[Part]) -> None:
        self._tag = _tag(field, _LENGTH)
        self._parts = parts
        self._lengths = np.add.reduce([part.sizes for part in parts])
        self._heads = _varint_sizes(self._lengths.view(np.uint64))
        self.sizes = len(self._tag) + self._heads + self._lengths

    def write(self, out: _Buffer, at: Ints) -> None:
        """See `Part`."""
        _write_bytes(out, at, self._tag)
        at = at + len(self._tag)
        _write_varints(out, at, self._lengths.view(np.uint64), self._heads)
        at = at + self._heads
        for part in self._parts:
            part.write(out, at)
            at = at + part.sizes


class Scattered:
    """A part that some messages have once, some several times, and some not at all.

    Args:
        rows: the message of each element of the part, rising.
        part: the elements.
        count: number of messages.
    """

    def __init__(self, rows: Ints, part: Part, count: int) -> None:
        self._rows, self._part = rows, part
        # Sums of sizes are far below 2^53, from where on a float skips integers.
        self.sizes = np.bincount(rows, weights=part.sizes, minlength=count).astype(np.int64)

    def write(self, out: _Buffer, at: Ints) -> None:
        """See `Part`."""
        sizes = self._part.sizes
        before = np.cumsum(sizes) - sizes
        of_message = np.cumsum(self.sizes) - self.sizes
        self._part.write(out, at[self._rows] + before - of_message[self._rows])


def _tag(field: int | None, wire_type: int) -> bytes:
    return b"" if field is None else _varint(field << 3 | wire_type)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 1 << _GROUP_BITS:
        found.append(number & 0x7F | 0x80)
        number >>= _GROUP_BITS
    return bytes([*found, number])


def _varint_sizes(values: NDArray[np.uint64]) -> Ints:
    sizes = np.ones(len(values), dtype=np.int64)
    largest = int(values.max()) if len(values) else 0
    for groups in range(1, _LONGEST):
        if largest >> (_GROUP_BITS * groups) == 0:
            break
        sizes += values >= np.uint64(1 << (_GROUP_BITS * groups))
    return sizes


def _write_varints(out: _Buffer, at: Ints, values: NDArray[np.uint64], sizes: Ints) -> None:
    while len(values):
        last = sizes == 1
        low = (values & np.uint64(0x7F)).astype(np.uint8)
        if last.all():
            out[at] = low
            return
        out[at] = np.where(last, low, low | np.uint8(0x80))
        if last.any():
            more = np.flatnonzero(~last)
            at, values, sizes = at[more], values[more], sizes[more]
        at, values, sizes = at + 1, values >> np.uint64(_GROUP_BITS), sizes - 1


def _write_bytes(out: _Buffer, at: Ints, content: bytes) -> None:
    for number, byte in enumerate(content):
        out[at + number] = byte
