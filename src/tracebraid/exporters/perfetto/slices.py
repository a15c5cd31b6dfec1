"""Slices and instants as packets: a begin and an end each, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.perfetto.content import Arg, ArgKind, Slices, Texts
from tracebraid.exporters.perfetto.flows import flow_parts
from tracebraid.exporters.perfetto.interning import Interned
from tracebraid.exporters.perfetto.nesting import begins_and_ends
from tracebraid.exporters.perfetto.schema import (
    PACKET,
    AnnotationField,
    EventField,
    EventType,
    PacketField,
    SequenceFlag,
)
from tracebraid.wire_format import (
    Constant,
    Fixed64s,
    Ints,
    Message,
    Part,
    Scattered,
    Varints,
    encoded,
    number_field,
)

__all__ = ["slice_packets"]

_PACKETS_PER_CHUNK = 1 << 16
"""Packets that are encoded at a time: arrays of this length stay in the processor's caches."""


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Packets that follow each other.

    Args:
        first: the first slice that begins among them.
        last: the slice behind the last one that does; all between begin here.
        at: the packet at which each of these begins.
        count: number of packets.
    """

    first: int
    last: int
    at: Ints
    count: int

    def slots(self, rows: Ints) -> tuple[slice, Ints]:
        """Those of rising rows that begin here, and the packet of each."""
        start, stop = np.searchsorted(rows, (self.first, self.last))
        return slice(start, stop), self.at[rows[start:stop] - self.first]


def slice_packets(
    slices: Slices, tracks: Ints, interned: Interned, sequence: int, origin_ns: int
) -> Iterator[bytes]:
    """The packets of all slices, in chunks.

    Args:
        slices: the slices of a process.
        tracks: the uuid of the track of each.
        interned: the numbers of their texts.
        sequence: id of the packet sequence.
        origin_ns: is taken off all times.
    """
    row, is_end = _packet_order(slices)
    for start in range(0, len(row), _PACKETS_PER_CHUNK):
        chunk = slice(start, start + _PACKETS_PER_CHUNK)
        yield _packets(_Events(slices, tracks, interned), (row[chunk], is_end[chunk]), sequence, origin_ns)


def _packet_order(slices: Slices) -> tuple[Ints, NDArray[np.bool_]]:
    """Of each packet its slice, and whether it is its end."""
    begin, end = begins_and_ends(slices.ts_ns, slices.ts_ns + slices.dur_ns)
    row = np.empty(2 * len(slices), dtype=np.int64)
    is_end = np.zeros(len(row), dtype=np.bool_)
    row[begin] = row[end] = np.arange(len(slices))
    is_end[end] = True
    kept = ~(is_end & slices.is_instant[row])
    return row[kept], is_end[kept]


@dataclass(frozen=True, eq=False)
class _Events:
    """What packets are made of; see `slice_packets`."""

    slices: Slices
    tracks: Ints
    interned: Interned


def _packets(events: _Events, order: tuple[Ints, NDArray[np.bool_]], sequence: int, origin_ns: int) -> bytes:
    (row, is_end), slices = order, events.slices
    at = np.flatnonzero(~is_end)
    first = int(row[at[0]]) if len(at) else 0
    chunk = _Chunk(first, first + len(at), at, len(row))
    ts_ns = slices.ts_ns[row] + np.where(is_end, slices.dur_ns[row], 0)
    begins = np.where(slices.is_instant[row], EventType.INSTANT, EventType.SLICE_BEGIN)
    event: list[Part] = [
        Varints(EventField.TYPE, np.where(is_end, EventType.SLICE_END, begins)),
        Varints(EventField.TRACK_UUID, events.tracks[row]),
        _numbers(EventField.CATEGORY_IIDS, slices.categories, chunk),
        _numbers(EventField.NAME_IID, slices.names, chunk),
    ]
    for flow in slices.flows:
        event += flow_parts(flow, *chunk.slots(flow.rows), chunk.count)
    for arg in slices.args:
        event += _annotations(arg, events.interned, chunk)
    head = number_field(PacketField.SEQUENCE_ID, sequence) + number_field(
        PacketField.SEQUENCE_FLAGS, SequenceFlag.NEEDS_INCREMENTAL_STATE
    )
    times = Varints(PacketField.TIMESTAMP, ts_ns - origin_ns)
    return encoded(PACKET, [Constant(head, chunk.count), times, Message(PacketField.TRACK_EVENT, event)])


def _numbers(field: int, texts: Texts, chunk: _Chunk) -> Part:
    """The number of the text of each slice that begins and has one."""
    numbers = texts.numbers[chunk.first : chunk.last]
    named = np.flatnonzero(numbers >= 0)
    return Scattered(chunk.at[named], Varints(field, numbers[named] + 1), chunk.count)


def _annotations(arg: Arg, interned: Interned, chunk: _Chunk) -> list[Part]:
    here, at = chunk.slots(arg.rows)
    if not len(at):
        return []
    name = Constant(number_field(AnnotationField.NAME_IID, interned.arg_name(arg)), len(at))
    value = _values(arg, here, interned)
    return [Scattered(at, Message(EventField.DEBUG_ANNOTATIONS, [name, value]), chunk.count)]


def _values(arg: Arg, here: slice, interned: Interned) -> Part:
    values = arg.values[here]
    if arg.kind is ArgKind.FLOAT:
        return Fixed64s(AnnotationField.DOUBLE_VALUE, values.astype(np.float64))
    numbers = values.astype(np.int64)
    if arg.kind is ArgKind.INT:
        return Varints(AnnotationField.INT_VALUE, numbers)
    if arg.kind is ArgKind.BOOL:
        return Varints(AnnotationField.BOOL_VALUE, numbers)
    return Varints(AnnotationField.STRING_VALUE_IID, interned.arg_values(arg)[numbers])
