"""What the timeline of a report is drawn from: slices on tracks, what joins them, and the critical path."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "MOST_SLICES",
    "TIMELINE_LINKS",
    "TIMELINE_LONGEST",
    "TIMELINE_PATH",
    "TIMELINE_RANKS",
    "TIMELINE_SLICES",
    "TIMELINE_TABLES",
    "TIMELINE_TRACKS",
    "SliceKind",
]

MOST_SLICES = 200_000
"""Slices of all ranks that a page holds: what a browser still draws at 30 frames a second, in about 4 MB."""

_INT, _FLOAT, _BOOL, _NAME, _TEXT, _JSON = (
    *(Kind.INT, Kind.FLOAT, Kind.BOOL),
    *(Kind.NAME, Kind.TEXT, Kind.JSON),
)
_SLICE = "row of `timeline_slices`"


class SliceKind(Enum):
    """What a slice is; the value is its code in tables."""

    OP = "op"
    ANNOTATION = "annotation"
    PYTHON = "python"
    CALL = "call"
    KERNEL = "kernel"
    COPY = "copy"
    COMMUNICATION = "communication"
    WAIT = "wait"
    DEVICE_ANNOTATION = "device annotation"
    OTHER = "other"
    MERGED = "merged"


TIMELINE_SLICES = Table(
    "timeline_slices",
    "One row per slice that is drawn: an event, or several short ones in a row; by rank, lane, level and start.",
    (
        Column("track", _INT, "row of `timeline_tracks`"),
        Column("level", _INT, "line of the track, from 0: nested slices, and those that overlap, lie lower"),
        Column("start_ns", _INT, "start, on aligned clocks, from the start of what is shown"),
        Column("duration_ns", _INT, "duration"),
        Column("name", _NAME, "name of the event; null: several"),
        Column("kind", _NAME, "what it is (`SliceKind`)"),
        Column("family", _NAME, "of device work: what kind of kernel it is (`KernelFamily`); else null"),
        Column("count", _INT, "events that it stands for"),
        Column("busy_ns", _INT, "sum of their durations"),
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: several"),
        Column("call", _INT, f"the call that launched it: {_SLICE}; null: unknown"),
        Column("op", _INT, f"the op that launched it: {_SLICE}; null: unknown"),
        Column("node_id", _INT, "Execution Trace node of the op; null: there is none"),
        Column("shapes", _JSON, "shapes of the inputs; null: not recorded"),
        Column("types", _JSON, "types of the inputs; null: not recorded"),
        Column("call_site", _TEXT, "innermost frame of the user, `file(line): function`; null: unknown"),
        Column("grid", _TEXT, "blocks of a kernel, and threads of a block; null: not recorded"),
        Column("size_bytes", _INT, "bytes that are copied, filled or communicated; null: unknown"),
        Column("collective", _INT, "row of `matched_collectives`; null: none, or not matched"),
        Column("group", _TEXT, "process group of communication"),
        Column("sequence", _INT, "number of the collective in its group; null: unknown"),
    ),
)

TIMELINE_TRACKS = Table(
    "timeline_tracks",
    "One row per thread or stream that has slices; by rank, threads before streams.",
    (
        Column("track", _INT, "row number"),
        Column("rank", _INT, "the rank"),
        Column("lane", _INT, "its row in `lanes` of the rank's timeline"),
        Column("is_device", _BOOL, "whether it is a stream of a device"),
        Column("label", _TEXT, "name of the thread or stream"),
        Column("process", _TEXT, "its process or device"),
        Column("levels", _INT, "lines that its slices take"),
        Column("slices", _INT, "slices that are drawn"),
        Column("events", _INT, "events that they stand for"),
    ),
)

TIMELINE_RANKS = Table(
    "timeline_ranks",
    "One row per rank that is drawn.",
    (
        Column("rank", _INT, "the rank"),
        Column("steps", _TEXT, "the steps that are shown, by commas; null: the whole trace"),
        Column("start_ns", _INT, "start of what is shown of it, as `timeline_slices`"),
        Column("end_ns", _INT, "end: of the steps, or of the last work that was launched in them"),
        Column("origin_ns", _INT, "moment 0 of the timeline, on the reference's clock"),
        Column("events", _INT, "events in that window"),
        Column("slices", _INT, "slices that are drawn"),
        Column("merged_ns", _INT, "shorter slices are merged where they follow each other; 0: none are"),
        Column("is_aligned", _BOOL, "whether its clock is known; else its start is laid on the others'"),
    ),
)

TIMELINE_LINKS = Table(
    "timeline_links",
    "One row per dependency other than launches and the order of a stream, which slices show themselves.",
    (
        Column("before", _INT, f"what is waited for: {_SLICE}"),
        Column("after", _INT, f"what waits: {_SLICE}"),
        Column(
            "kind", _NAME, "`event_wait`, `sync`, `inter_thread`, `forward_backward`, as in `dependencies`"
        ),
        Column("slack_ns", _INT, "from the one to the other; null: not a wait"),
    ),
)

TIMELINE_PATH = Table(
    "timeline_path",
    "One row per segment of the critical path of the shown steps; in order.",
    (
        Column("track", _INT, "row of `timeline_tracks`; null: it lies on no thread or stream that is drawn"),
        Column("slice", _INT, f"{_SLICE}; null: the segment has no event, or its rank is not drawn"),
        Column("start_ns", _INT, "start, as in `timeline_slices`"),
        Column("duration_ns", _INT, "duration"),
        Column("kind", _NAME, "what happens (`SegmentKind`)"),
        Column("name", _NAME, "name of the event, or of the thread"),
    ),
)

TIMELINE_LONGEST = Table(
    "timeline_longest",
    "One row per event of a timeline, the longest first.",
    (
        Column("rank", _INT, "the rank"),
        Column("where", _TEXT, "name of the thread or stream"),
        *(
            TIMELINE_SLICES.column(name)
            for name in ("name", "kind", "start_ns", "duration_ns", "family", "shapes", "size_bytes")
        ),
    ),
)

TIMELINE_TABLES = {
    "timeline-slices": TIMELINE_SLICES,
    "timeline-tracks": TIMELINE_TRACKS,
    "timeline-ranks": TIMELINE_RANKS,
    "timeline-links": TIMELINE_LINKS,
    "timeline-path": TIMELINE_PATH,
}
"""The tables by the names under which `RunResults.views` has them."""
