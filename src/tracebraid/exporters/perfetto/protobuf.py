"""Processes to Perfetto's protobuf, each as a packet sequence of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from msgspec import Struct

from tracebraid.exporters.perfetto.content import Counter, Lane, Process, Slices, Unit
from tracebraid.exporters.perfetto.schema import (
    PACKET,
    CounterField,
    CounterUnit,
    EventField,
    EventType,
    Interned,
    Ordering,
    PacketField,
    ProcessField,
    ThreadField,
    TrackField,
    siblings,
    slice_packets,
)
from tracebraid.wire_format import (
    Constant,
    Fixed64s,
    Ints,
    Message,
    Part,
    Varints,
    bytes_field,
    encoded,
    number_field,
)


def counter_packets(counter: Counter, uuid: int, sequence: int, origin_ns: int) -> bytes:
    """A packet for each change of a counter."""
    count = len(counter.ts_ns)
    head = number_field(EventField.TYPE, EventType.COUNTER) + number_field(EventField.TRACK_UUID, uuid)
    value: Part
    if counter.values.dtype.kind == "f":
        value = Fixed64s(EventField.DOUBLE_COUNTER_VALUE, counter.values.astype(float))
    else:
        value = Varints(EventField.COUNTER_VALUE, counter.values.astype(int))
    sequence_id = Constant(number_field(PacketField.SEQUENCE_ID, sequence), count)
    times = Varints(PacketField.TIMESTAMP, counter.ts_ns - origin_ns)
    event = Message(PacketField.TRACK_EVENT, [Constant(head, count), value])
    return encoded(PACKET, [sequence_id, times, event])


class TimelineForm(Struct, frozen=True):
    """A format of timelines.

    Args:
        process: a process in chunks of bytes, which depend on no other process; its times are relative to a moment in
            ns. Equal processes give equal bytes.
        head: the start of a file, by that moment.
        between: what stands between two processes.
        tail: the end of a file.
    """

    process: Callable[[Process, int], Iterator[bytes]]
    head: Callable[[int], bytes] = lambda base_ns: b""
    between: bytes = b""
    tail: bytes = b""

    def chunks(self, processes: Iterable[Iterable[bytes]], base_ns: int) -> Iterator[bytes]:
        """A whole file in chunks of bytes."""
        yield self.head(base_ns)
        between = b""
        for process in processes:
            yield between
            yield from process
            between = self.between
        yield self.tail


_UNITS = {
    Unit.COUNT: number_field(CounterField.UNIT, CounterUnit.COUNT),
    Unit.BYTES: number_field(CounterField.UNIT, CounterUnit.SIZE_BYTES),
    Unit.BYTES_PER_S: bytes_field(CounterField.UNIT_NAME, b"bytes/s"),
    Unit.PERCENT: bytes_field(CounterField.UNIT_NAME, b"%"),
}


class SliceTracks(Struct, frozen=True, eq=False):
    """The tracks of the slices of a process.

    Args:
        of_slice: the track of each slice, from 0.
        lanes: the lane of each track; several have the same where its slices overlap.
        firsts: of each track, the first one of its lane.
    """

    of_slice: Ints
    lanes: list[int]
    firsts: list[int]


def slice_tracks(slices: Slices, lanes: int) -> SliceTracks:
    """The tracks of slices: as many for each lane as they need to nest, at least 1."""
    sibling = siblings(slices.lane, slices.ts_ns, slices.ts_ns + slices.dur_ns)
    tracks = np.ones(lanes, dtype=np.int64)
    np.maximum.at(tracks, slices.lane, sibling + 1)
    first = np.cumsum(tracks) - tracks
    of_track = np.repeat(np.arange(lanes), tracks)
    return SliceTracks(first[slices.lane] + sibling, of_track.tolist(), first[of_track].tolist())


def descriptors(process: Process, tracks: SliceTracks, uuid: int, sequence: int) -> bytes:
    """The packets that describe all tracks of a process."""
    found = [_process(process, uuid)]
    for number, (lane, first) in enumerate(zip(tracks.lanes, tracks.firsts, strict=True)):
        found.append(_lane(process, lane, uuid + 1 + number, (uuid, uuid + 1 + first)))
    start = 1 + len(tracks.lanes)
    for number, counter in enumerate(process.counters, start):
        found.append(_counter(counter, uuid + number, uuid, number))
    head = number_field(PacketField.SEQUENCE_ID, sequence)
    return b"".join(
        bytes_field(PACKET, head + bytes_field(PacketField.TRACK_DESCRIPTOR, track)) for track in found
    )


def _process(process: Process, uuid: int) -> bytes:
    content = (
        number_field(ProcessField.PID, process.pid)
        + bytes_field(ProcessField.NAME, process.name.encode())
        + number_field(ProcessField.SORT_INDEX, process.order)
        + b"".join(bytes_field(ProcessField.LABELS, label.encode()) for label in process.labels)
    )
    return (
        number_field(TrackField.UUID, uuid)
        + bytes_field(TrackField.PROCESS, content)
        + number_field(TrackField.CHILD_ORDERING, Ordering.EXPLICIT)
    )


def _lane(process: Process, number: int, uuid: int, parents: tuple[int, int]) -> bytes:
    """A track of a lane; `parents` are the track of the process and the first one of the lane."""
    lane, (parent, first) = process.lanes[number], parents
    if lane.thread_id is not None and uuid == first:
        return number_field(TrackField.UUID, uuid) + bytes_field(
            TrackField.THREAD, _thread(process, lane, lane.thread_id, number)
        )
    return (
        number_field(TrackField.UUID, uuid)
        + number_field(TrackField.PARENT_UUID, parent if lane.thread_id is None else first)
        + bytes_field(TrackField.NAME, lane.name.encode())
        + number_field(TrackField.SIBLING_ORDER_RANK, number)
    )


def _thread(process: Process, lane: Lane, thread_id: int, number: int) -> bytes:
    return (
        number_field(ThreadField.PID, process.pid)
        + number_field(ThreadField.TID, thread_id)
        + number_field(ThreadField.SORT_INDEX, number)
        + bytes_field(ThreadField.NAME, lane.name.encode())
    )


def _counter(counter: Counter, uuid: int, parent: int, order: int) -> bytes:
    return (
        number_field(TrackField.UUID, uuid)
        + number_field(TrackField.PARENT_UUID, parent)
        + bytes_field(TrackField.NAME, counter.name.encode())
        + number_field(TrackField.SIBLING_ORDER_RANK, order)
        + bytes_field(TrackField.COUNTER, _UNITS[counter.unit])
    )


_MOST_TRACKS = 1 << 32
"""Each process numbers its tracks in a range of its own: a process has fewer than 2**32 slices, and so tracks."""


def _process_packets(process: Process, origin_ns: int) -> Iterator[bytes]:
    """The packets of a process, whose times are above the origin, as Perfetto's are unsigned."""
    sequence, uuid = process.number + 1, process.number * _MOST_TRACKS + 1
    tracks = slice_tracks(process.slices, len(process.lanes))
    interned = Interned(process.slices)
    yield interned.packet(sequence)
    yield descriptors(process, tracks, uuid, sequence)
    of_slices = uuid + 1 + tracks.of_slice
    yield from slice_packets(process.slices, of_slices, interned, sequence, origin_ns)
    first = uuid + 1 + len(tracks.lanes)
    for number, counter in enumerate(process.counters, first):
        yield counter_packets(counter, number, sequence, origin_ns)


PROTOBUF = TimelineForm(_process_packets)
