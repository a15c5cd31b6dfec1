"""Processes to Perfetto's protobuf, each as a packet sequence of its own."""

from __future__ import annotations

from collections.abc import Iterator

from tracebraid.exporters.perfetto.content import Process
from tracebraid.exporters.perfetto.counters import counter_packets
from tracebraid.exporters.perfetto.interning import Interned
from tracebraid.exporters.perfetto.slices import slice_packets
from tracebraid.exporters.perfetto.timeline_form import TimelineForm
from tracebraid.exporters.perfetto.tracks import descriptors, slice_tracks

__all__ = ["PROTOBUF"]

_MOST_TRACKS = 1 << 32
"""Each process numbers its tracks in a range of its own: a process has fewer than 2**32 slices, and so tracks."""


def _process(process: Process, origin_ns: int) -> Iterator[bytes]:
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


PROTOBUF = TimelineForm(_process)
