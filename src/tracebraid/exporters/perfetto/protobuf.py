"""Processes to Perfetto's protobuf, each as a packet sequence of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracebraid.exporters.perfetto.content import Process
from tracebraid.exporters.perfetto.counters import counter_packets
from tracebraid.exporters.perfetto.interning import Interned
from tracebraid.exporters.perfetto.slices import slice_packets
from tracebraid.exporters.perfetto.tracks import descriptors, slice_tracks, track_count

__all__ = ["protobuf_chunks"]


def protobuf_chunks(processes: Iterable[Process], origin_ns: int = 0) -> Iterator[bytes]:
    """The trace in chunks of bytes; equal processes give equal bytes.

    Args:
        processes: are taken one after the other, and released.
        origin_ns: is taken off all times; these are above it, as Perfetto's are unsigned.
    """
    uuid = 1
    for process in processes:
        sequence = process.number + 1
        tracks = slice_tracks(process.slices, len(process.lanes))
        interned = Interned(process.slices)
        yield interned.packet(sequence)
        yield descriptors(process, tracks, uuid, sequence)
        of_slices = uuid + 1 + tracks.of_slice
        yield from slice_packets(process.slices, of_slices, interned, sequence, origin_ns)
        first = uuid + 1 + len(tracks.lanes)
        for number, counter in enumerate(process.counters, first):
            yield counter_packets(counter, number, sequence, origin_ns)
        uuid += track_count(process, tracks)
        del process, tracks, interned, of_slices
