"""A Perfetto trace, decoded with Perfetto's own schema, as its viewer takes it: slices of tracks, counters, flows."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

_CLEARED, _NEEDED = 1, 2


@dataclass(frozen=True)
class Track:
    """A track: its name, the process it is of, whether it counts, and the track around it."""

    uuid: int
    name: str
    pid: int | None
    parent: int | None
    counts: bool
    thread: int | None = None


@dataclass
class Instant:
    """A slice; one without an end is an instant, whose duration is None."""

    name: str
    category: str
    track: Track
    ts: int
    args: dict[str, Any]
    flows: list[int]
    parent: Instant | None
    dur: int | None = None
    is_instant: bool = False


@dataclass
class Shown:
    """What a viewer shows."""

    tracks: dict[int, Track] = field(default_factory=dict)
    slices: list[Instant] = field(default_factory=list)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    processes: dict[int, Any] = field(default_factory=dict)

    def of(self, process: str) -> list[Instant]:
        """The slices of a process by its name."""
        pids = [pid for pid, found in self.processes.items() if found.process_name == process]
        return [slice_ for slice_ in self.slices if slice_.track.pid in pids]


def shown_file(path: Path) -> Shown:
    """What is in a file."""
    content = path.read_bytes()
    return shown(gzip.decompress(content) if path.suffix == ".gz" else content)


def shown(content: bytes) -> Shown:
    """Take packets in the order of their times, of equal ones as they come, as the viewer does."""
    trace = schema.Trace()
    trace.ParseFromString(content)
    found, interned = Shown(), dict[int, dict[str, dict[int, Any]]]()
    for packet in trace.packet:
        if packet.sequence_flags & _CLEARED:
            assert packet.trusted_packet_sequence_id not in interned
            interned[packet.trusted_packet_sequence_id] = _texts(packet.interned_data)
        if packet.HasField("track_descriptor"):
            _add_track(found, packet.track_descriptor)
    events = [packet for packet in trace.packet if packet.HasField("track_event")]
    stacks: dict[int, list[Instant]] = defaultdict(list)
    for packet in sorted(events, key=lambda packet: packet.timestamp):
        _take(found, packet, interned[packet.trusted_packet_sequence_id], stacks)
    assert not any(stacks.values()), "a slice was not ended"
    return found


def _texts(data: Any) -> dict[str, dict[int, Any]]:
    tables = {
        "category": {entry.iid: entry.name for entry in data.event_categories},
        "name": {entry.iid: entry.name for entry in data.event_names},
        "arg": {entry.iid: entry.name for entry in data.debug_annotation_names},
        "value": {entry.iid: entry.str.decode() for entry in data.debug_annotation_string_values},
    }
    assert all(0 not in table for table in tables.values())
    return tables


def _add_track(found: Shown, track: Any) -> None:
    assert track.uuid not in {0, *found.tracks}
    parent = found.tracks[track.parent_uuid] if track.HasField("parent_uuid") else None
    pid = parent.pid if parent else None
    name, thread = track.name, None
    if track.HasField("process"):
        pid, name = track.process.pid, track.process.process_name
        assert pid not in found.processes
        found.processes[pid] = track.process
    if track.HasField("thread"):
        pid, name, thread = track.thread.pid, track.thread.thread_name, track.thread.tid
    around = parent.uuid if parent else None
    found.tracks[track.uuid] = Track(track.uuid, name, pid, around, track.HasField("counter"), thread)


def _take(
    found: Shown, packet: Any, texts: dict[str, dict[int, Any]], stacks: dict[int, list[Instant]]
) -> None:
    event = packet.track_event
    track = found.tracks[event.track_uuid]
    if event.type == event.TYPE_COUNTER:
        assert track.counts
        is_float = event.HasField("double_counter_value")
        value = event.double_counter_value if is_float else event.counter_value
        found.counters[f"{track.pid}: {track.name}"].append((packet.timestamp, value))
        return
    stack = stacks[track.uuid]
    if event.type == event.TYPE_SLICE_END:
        ended = stack.pop()
        ended.dur = packet.timestamp - ended.ts
        return
    assert packet.sequence_flags & _NEEDED
    (category,) = event.category_iids or [0]
    begun = Instant(
        texts["name"].get(event.name_iid, ""),
        texts["category"].get(category, ""),
        track,
        packet.timestamp,
        _args(event.debug_annotations, texts),
        list(event.flow_ids),
        stack[-1] if stack else None,
        is_instant=event.type == event.TYPE_INSTANT,
    )
    found.slices.append(begun)
    if not begun.is_instant:
        stack.append(begun)


def _args(annotations: Any, texts: dict[str, dict[int, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for annotation in annotations:
        kind = annotation.WhichOneof("value")
        value = getattr(annotation, kind)
        found[texts["arg"][annotation.name_iid]] = (
            texts["value"][value] if kind == "string_value_iid" else value
        )
    return found
