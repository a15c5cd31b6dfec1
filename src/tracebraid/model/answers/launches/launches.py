"""Answers about launches: calls of the host that have work on a device."""

from __future__ import annotations

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table

__all__ = ["LAUNCHES", "LAUNCH_BOUND", "LAUNCH_EVENTS", "STEP_OF_EVENT"]

STEP_OF_EVENT = Column("step", Kind.TEXT, "the step in which the call lies; null: in none")
_OP = Column("op", Kind.TEXT, "innermost op or annotation that encloses the call; null: none")
_API = Column("api", Kind.TEXT, "the call's name; any that has device work, by its effect")


def _spread(prefix: str, what: str) -> tuple[Column, ...]:
    """Columns of a distribution of times."""
    left_out = "; null: only launches of doubtful steps"
    return (
        Column(f"{prefix}_ns", Kind.INT, f"{what}, sum of all"),
        Column(f"{prefix}_mean_ns", Kind.FLOAT, f"{what}, mean{left_out}"),
        Column(f"{prefix}_median_ns", Kind.FLOAT, f"{what}, median{left_out}"),
        Column(f"{prefix}_p95_ns", Kind.FLOAT, f"{what}, 95th percentile{left_out}"),
        Column(f"{prefix}_max_ns", Kind.INT, f"{what}, longest of all"),
    )


LAUNCH_EVENTS = Table(
    "launch_events",
    "One row per launch, in the order of their starts: a call of any API that has device work.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("call_event", Kind.INT, "the call: its row in `events`"),
        Column("correlation", Kind.INT, "joins the call to its device events; null: none in the trace"),
        _API,
        Column("op_event", Kind.INT, "innermost op or annotation that encloses the call; null: none"),
        Column("op", Kind.TEXT, "its name"),
        Column("start_ns", Kind.INT, "start of the call"),
        Column("host_ns", Kind.INT, "duration of the call"),
        Column("after_start_ns", Kind.INT, "from the call's start to the start of its first device event"),
        Column(
            "after_end_ns",
            Kind.INT,
            "from the call's end to the start of its first device event; below 0: it started during the call",
        ),
        Column("delay_ns", Kind.INT, "`after_end_ns`, or 0 where that is below 0"),
        Column(
            "stream_idle_ns",
            Kind.INT,
            "how long the stream of the first device event had stood idle then; null: nothing ran on it before",
        ),
        Column("kernels", Kind.INT, "device events that it launched"),
        Column("device_ns", Kind.INT, "sum of their durations"),
        Column("device_span_ns", Kind.INT, "from the start of the first to the end of the last of them"),
        Column("device", Kind.TEXT, "device of the first of them"),
        Column("stream", Kind.TEXT, "stream of the first of them"),
        Column("streams", Kind.INT, "number of streams that they ran on"),
        DOUBTFUL,
    ),
)

LAUNCHES = Table(
    "launches",
    "One row per op and API, the most host time first: what its launches cost the host, and what they gave the device.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _OP,
        _API,
        Column("count", Kind.INT, "launches"),
        Column("kernels", Kind.INT, "device events of these"),
        *_spread("host", "duration of the call"),
        *_spread("delay", "from the call's end to its first device event, at least 0"),
        *_spread("device", "duration of the launch's device events"),
        Column("short", Kind.INT, "launches whose device events last less than their call"),
        DOUBTFUL,
    ),
)

LAUNCH_BOUND = Table(
    "launch_bound",
    "One row per stretch of a stream in which it ran dry before each launch, the most idle time first. "
    "device + idle = span, exactly.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("device", Kind.TEXT, "device"),
        Column("stream", Kind.TEXT, "stream"),
        Column("start_ns", Kind.INT, "start of the stretch's first device event"),
        Column("span_ns", Kind.INT, "from there to the end of the last of its device events"),
        Column("launches", Kind.INT, "calls that launched them"),
        Column("kernels", Kind.INT, "device events"),
        Column("device_ns", Kind.INT, "time in which any of them runs"),
        Column("idle_ns", Kind.INT, "time in which none of them runs"),
        Column(
            "gain_ns",
            Kind.INT,
            "idle time in which all other streams of the device were idle too: what a graph or fusion gains at most; "
            "stretches of two streams may hold the same time: do not add those up",
        ),
        Column("host_launch_ns", Kind.INT, "sum of the durations of these calls"),
        Column(
            "op", Kind.TEXT, "name of the innermost op with the most idle time before its work; null: none"
        ),
        Column(
            "annotation",
            Kind.TEXT,
            "innermost annotation around the launches with the most idle time, steps left out; null: none",
        ),
        DOUBTFUL,
    ),
)
