"""Numbers of the fields of Perfetto's protobuf that are written, as `perfetto_trace.proto` has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.exporters.perfetto.content import Arg, ArgKind, Flow, Slices, Texts
from tracebraid.wire_format import (
    Bytes,
    Constant,
    Fixed64s,
    Ints,
    Message,
    Part,
    Scattered,
    Varints,
    bytes_field,
    encoded,
    number_field,
)

PACKET = 1
"""`Trace.packet`."""


class PacketField(IntEnum):
    """`TracePacket`."""

    TIMESTAMP = 8
    SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACK_DESCRIPTOR = 60
    FIRST_PACKET_ON_SEQUENCE = 87


class SequenceFlag(IntEnum):
    """`TracePacket.SequenceFlags`."""

    INCREMENTAL_STATE_CLEARED = 1
    NEEDS_INCREMENTAL_STATE = 2


class InternedField(IntEnum):
    """`InternedData`."""

    CATEGORIES = 1
    EVENT_NAMES = 2
    ANNOTATION_NAMES = 3
    STRING_VALUES = 29


class NamedField(IntEnum):
    """`EventCategory`, `EventName`, `DebugAnnotationName` and `InternedString` alike."""

    IID = 1
    NAME = 2


class EventField(IntEnum):
    """`TrackEvent`."""

    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    COUNTER_VALUE = 30
    DOUBLE_COUNTER_VALUE = 44
    FLOW_IDS = 47


class EventType(IntEnum):
    """`TrackEvent.Type`."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4


class AnnotationField(IntEnum):
    """`DebugAnnotation`."""

    NAME_IID = 1
    BOOL_VALUE = 2
    INT_VALUE = 4
    DOUBLE_VALUE = 5
    STRING_VALUE_IID = 17


class TrackField(IntEnum):
    """`TrackDescriptor`."""

    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT_UUID = 5
    COUNTER = 8
    CHILD_ORDERING = 11
    SIBLING_ORDER_RANK = 12


class Ordering(IntEnum):
    """`TrackDescriptor.ChildTracksOrdering`."""

    EXPLICIT = 3


class ProcessField(IntEnum):
    """`ProcessDescriptor`."""

    PID = 1
    SORT_INDEX = 3
    NAME = 6
    LABELS = 8


class ThreadField(IntEnum):
    """`ThreadDescriptor`."""

    PID = 1
    TID = 2
    SORT_INDEX = 3
    NAME = 5


class CounterField(IntEnum):
    """`CounterDescriptor`."""

    UNIT = 3
    UNIT_NAME = 6


class CounterUnit(IntEnum):
    """`CounterDescriptor.Unit`."""

    COUNT = 2
    SIZE_BYTES = 3


class Interned:
    """Interned text ids of a sequence; 0 is none, as in Perfetto."""

    def __init__(self, slices: Slices) -> None:
        """Number the texts of slices: those of names and categories as they are, those of arguments together."""
        self._names, self._categories = slices.names.distinct, slices.categories.distinct
        self._arg_names = _numbered(arg.name for arg in slices.args)
        self._values = _numbered(text for arg in slices.args for text in arg.distinct)

    def arg_name(self, arg: Arg) -> int:
        """The number of an argument's name."""
        return self._arg_names[arg.name]

    def arg_values(self, arg: Arg) -> Ints:
        """The number of each distinct text of an argument; empty if it has numbers."""
        if arg.kind not in (ArgKind.TEXT, ArgKind.JSON):
            return np.empty(0, dtype=np.int64)
        return np.array([self._values[text] for text in arg.distinct], dtype=np.int64)

    def packet(self, sequence: int) -> bytes:
        """The first packet of a sequence, with all texts; without a time."""
        data = (
            _entries(InternedField.CATEGORIES, self._categories)
            + _entries(InternedField.EVENT_NAMES, self._names)
            + _entries(InternedField.ANNOTATION_NAMES, list(self._arg_names))
            + _entries(InternedField.STRING_VALUES, list(self._values))
        )
        return bytes_field(
            PACKET,
            number_field(PacketField.SEQUENCE_ID, sequence)
            + number_field(PacketField.SEQUENCE_FLAGS, SequenceFlag.INCREMENTAL_STATE_CLEARED)
            + number_field(PacketField.FIRST_PACKET_ON_SEQUENCE, 1)
            + bytes_field(PacketField.INTERNED_DATA, data),
        )


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}


def _entries(field: int, texts: Sequence[str]) -> bytes:
    numbers = Varints(NamedField.IID, np.arange(1, len(texts) + 1))
    return encoded(field, [numbers, Bytes(NamedField.NAME, [text.encode() for text in texts])])


def flow_parts(flow: Flow, here: slice, at: Ints, count: int) -> list[Part]:
    """The ends of flows at some packets.

    Both ends carry the same id, which no other flow of the trace has: viewers join them in the order of time, so that
    a kernel that seems to start before its launch keeps its arrow.
    """
    if not len(at):
        return []
    return [Scattered(at, Fixed64s(EventField.FLOW_IDS, flow.numbers[here].astype(np.uint64)), count)]


_NESTING_TRACKS = 8
"""Sibling tracks that are searched for one in which a slice nests; further ones take it only once they are free, so
that the time stays linear in the slices however many of them overlap."""


def begins_and_ends(ts_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """The position of each slice's begin and end among all of them, from 0.

    At the same moment ends come before begins, inner ends first; a slice without duration ends right where it begins.
    """
    count = len(ts_ns)
    is_empty = end_ns == ts_ns
    with_length = np.flatnonzero(~is_empty)
    backward = with_length[::-1]
    closing = backward[np.argsort(end_ns[backward], kind="stable")]
    closing_ns = end_ns[closing]
    opened = np.arange(count) + np.cumsum(is_empty) - is_empty
    begin = opened + np.searchsorted(closing_ns, ts_ns, side="right")
    end = begin + 1
    before = np.append(opened, count + np.count_nonzero(is_empty))
    end[closing] = np.arange(len(closing)) + before[np.searchsorted(ts_ns, closing_ns, side="left")]
    return begin, end


def siblings(lane: Ints, ts_ns: Ints, end_ns: Ints) -> Ints:
    """The sibling track of each slice on its lane, from 0: slices of the same lane and sibling nest."""
    found = np.zeros(len(lane), dtype=np.int64)
    for crossing in np.unique(lane[_crossings(lane, ts_ns, end_ns)]):
        rows = np.flatnonzero(lane == crossing)
        found[rows] = _spread(ts_ns[rows].tolist(), end_ns[rows].tolist())
    return found


def _crossings(lane: Ints, ts_ns: Ints, end_ns: Ints) -> Ints:
    """A slice of each lane whose slices do not all nest; empty if all do.

    Walk the begins and ends of a lane: where slices nest, those that open and close the same depth belong together.
    """
    count = len(lane)
    begin, end = begins_and_ends(ts_ns, end_ns)
    row = np.empty(2 * count, dtype=np.int64)
    row[begin], row[end] = np.arange(count), np.arange(count)
    step = np.empty(2 * count, dtype=np.int64)
    step[begin], step[end] = 1, -1
    by_lane = np.argsort(_small(lane[row]), kind="stable")
    row, step = row[by_lane], step[by_lane]
    # Of an end, the depth that it closes: as many ends as begins precede the next lane.
    depth = np.cumsum(step) + (step < 0)
    by_depth = np.argsort(_small(depth), kind="stable")
    opened, closed = row[by_depth].reshape(-1, 2).T
    crossing: Ints = opened[end_ns[opened] != end_ns[closed]]
    return crossing


def _small(numbers: Ints) -> NDArray[np.integer]:
    """Narrow to 16 bits if possible, which numpy radix-sorts."""
    small: NDArray[np.integer] = numbers.astype(np.uint16) if numbers.max(initial=0) < 1 << 16 else numbers
    return small


def _spread(starts: list[int], ends: list[int]) -> list[int]:
    """The sibling track of each slice of a lane: the first in which it nests, or one that is free."""
    stacks: list[list[int]] = [[] for _ in range(_NESTING_TRACKS)]
    busy: list[tuple[int, int]] = []
    found = []
    for start, end in zip(starts, ends, strict=True):
        number = _nesting(stacks, start, end)
        if number is None:
            free = busy and busy[0][0] <= start
            number = heappop(busy)[1] if free else _NESTING_TRACKS + len(busy)
            heappush(busy, (end, number))
        found.append(number)
    return found


def _nesting(stacks: list[list[int]], start: int, end: int) -> int | None:
    """The first track in which a slice nests, whose ends of open slices it extends; None if it nests in none."""
    for number, stack in enumerate(stacks):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or stack[-1] >= end:
            if end > start:
                stack.append(end)
            return number
    return None


_PACKETS_PER_CHUNK = 1 << 16
"""Packets that are encoded at a time: arrays of this length stay in the processor's caches."""


class _Chunk(Struct, frozen=True, eq=False):
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
        """Ascending rows that begin here, and the packet of each."""
        start, stop = np.searchsorted(rows, (self.first, self.last))
        return slice(start, stop), self.at[rows[start:stop] - self.first]


def slice_packets(
    slices: Slices, tracks: Ints, interned: Interned, sequence: int, origin_ns: int
) -> Iterator[bytes]:
    """The packets of all slices, in chunks."""
    row, is_end = _packet_order(slices)
    for start in range(0, len(row), _PACKETS_PER_CHUNK):
        chunk = slice(start, start + _PACKETS_PER_CHUNK)
        yield _packets(_Events(slices, tracks, interned), (row[chunk], is_end[chunk]), sequence, origin_ns)


def _packet_order(slices: Slices) -> tuple[Ints, NDArray[np.bool_]]:
    """Slice of each packet, and whether it is its end."""
    begin, end = begins_and_ends(slices.ts_ns, slices.ts_ns + slices.dur_ns)
    row = np.empty(2 * len(slices), dtype=np.int64)
    is_end = np.zeros(len(row), dtype=np.bool_)
    row[begin] = row[end] = np.arange(len(slices))
    is_end[end] = True
    kept = ~(is_end & slices.is_instant[row])
    return row[kept], is_end[kept]


class _Events(Struct, frozen=True, eq=False):
    """Input of packets; see `slice_packets`."""

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
