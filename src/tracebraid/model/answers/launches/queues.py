"""Answers about the queues between host and device."""

from __future__ import annotations

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table

__all__ = ["FULL_QUEUE", "QUEUE_LENGTHS", "QUEUE_SERIES"]

_DEVICE, _STREAM = Column("device", Kind.TEXT, "device"), Column("stream", Kind.TEXT, "stream")
_AT_CHANGES = "over the moments at which the length changes"

QUEUE_LENGTHS = Table(
    "queue_lengths",
    "One row per stream: how many device events were launched and had not started.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _DEVICE,
        _STREAM,
        Column("count", Kind.INT, "changes of the length: two for each device event whose call is known"),
        Column("mean", Kind.FLOAT, f"mean length {_AT_CHANGES}"),
        Column("std", Kind.FLOAT, "standard deviation of these, of a sample; null for a single change"),
        Column("min", Kind.INT, "shortest of all"),
        Column("p25", Kind.FLOAT, f"lower quartile {_AT_CHANGES}"),
        Column("p50", Kind.FLOAT, f"median {_AT_CHANGES}"),
        Column("p75", Kind.FLOAT, f"upper quartile {_AT_CHANGES}"),
        Column("max", Kind.INT, "longest of all"),
        Column(
            "mean_over_time",
            Kind.FLOAT,
            "mean weighted by how long each length lasted; null: all changes at one moment",
        ),
        DOUBTFUL,
    ),
)

QUEUE_SERIES = Table(
    "queue_series",
    "One row per change of a stream's queue, by stream and time; the length holds until the next row of the stream.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step of the launch whose work is queued or starts; null: in none"),
        _DEVICE,
        _STREAM,
        Column("ts_ns", Kind.INT, "the moment"),
        Column("length", Kind.INT, "device events that were launched and have not started, from then on"),
        Column("launches", Kind.INT, "calls of which some device event on the stream has not started"),
        DOUBTFUL,
    ),
)

FULL_QUEUE = Table(
    "full_queue",
    "One row per stream that was launched to: how long its queue was full, and what calls lost by that.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _DEVICE,
        _STREAM,
        Column("longest", Kind.INT, "most launches that waited at a time"),
        Column("full_ns", Kind.INT, "time in which at least `max_queue_length` launches waited"),
        Column(
            "share",
            Kind.FLOAT,
            "of the span of the trace or step, null if that has no length; above 1: launches waited beyond the step",
        ),
        Column("launches", Kind.INT, "launches that began while the queue was nearly full"),
        Column(
            "blocked", Kind.INT, "those of them that were slow, and returned after other work had started"
        ),
        Column("blocked_ns", Kind.INT, "time that these took beyond the usual duration of their API"),
        DOUBTFUL,
    ),
)
