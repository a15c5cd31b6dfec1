"""Answers about calls of the host that wait for a device."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.launches.launches import STEP_OF_EVENT
from tracebraid.model.column import Column, Kind, Table

__all__ = ["SYNCS", "SYNC_CALLS", "SyncKind", "WaitMethod"]


class SyncKind(Enum):
    """What a call may wait for."""

    DEVICE = "device"
    STREAM = "stream"
    EVENT = "event"
    COPY = "copy"
    ALLOCATION = "allocation"
    QUERY = "query"


class WaitMethod(Enum):
    """How the work that a call waited for is known."""

    RECORDED = "recorded"
    LAUNCHED = "launched"
    EFFECT = "effect"
    INFERRED = "inferred"


_API = Column("api", Kind.TEXT, "the call's name")
_KIND = Column("kind", Kind.TEXT, "what the call may wait for: see `SyncKind`")
_OP = Column("op", Kind.TEXT, "innermost op that encloses the call; null: none")
_TOP_OP = Column("top_op", Kind.TEXT, "outermost op that encloses the call (`aten::item`); null: none")
_ANNOTATION = Column(
    "annotation", Kind.TEXT, "innermost annotation that encloses the call, steps left out; null: none"
)
_FRAME = Column(
    "frame",
    Kind.TEXT,
    "innermost Python function outside of torch that encloses the call, else innermost; null: no stacks",
)
_WAITED = (
    Column("waited_name", Kind.TEXT, "name of the device event that it waited for; null: none, or unknown"),
    Column("waited_device", Kind.TEXT, "its device"),
    Column("waited_stream", Kind.TEXT, "its stream"),
)

SYNC_CALLS = Table(
    "sync_calls",
    "One row per call that synchronises or may do so, in the order of their starts. blocked + other = host, exactly.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("call_event", Kind.INT, "the call: its row in `events`"),
        _API,
        _KIND,
        Column("op_event", Kind.INT, "innermost op that encloses the call; null: none"),
        _OP,
        _TOP_OP,
        _ANNOTATION,
        _FRAME,
        Column("start_ns", Kind.INT, "start of the call"),
        Column("host_ns", Kind.INT, "duration of the call"),
        Column("blocked_ns", Kind.INT, "time until the work that it waited for had ended; 0: there was none"),
        Column("other_ns", Kind.INT, "the rest of the call"),
        Column("waited_event", Kind.INT, "the device event that it waited for; null: none, or unknown"),
        *_WAITED,
        Column(
            "method", Kind.TEXT, "how that is known: see `WaitMethod`; null: nothing to wait for is known"
        ),
        Column(
            "confidence", Kind.FLOAT, "1.0 recorded or launched, 0.8 by effect, 0.5 inferred; null: no method"
        ),
        DOUBTFUL,
    ),
)

SYNCS = Table(
    "syncs",
    "One row per call's name, who asked and what it waited for, the most host time first.",
    (
        RANK,
        STEP,
        _API,
        _KIND,
        _OP,
        _TOP_OP,
        _ANNOTATION,
        _FRAME,
        *_WAITED,
        Column("count", Kind.INT, "calls"),
        Column("waits", Kind.INT, "calls that were blocked"),
        Column("host_ns", Kind.INT, "sum of their durations"),
        Column("blocked_ns", Kind.INT, "sum of the time in which they were blocked"),
        Column("mean_ns", Kind.FLOAT, "mean duration; null: only calls in doubtful steps"),
        Column("max_ns", Kind.INT, "longest of all"),
        Column("confidence", Kind.FLOAT, "lowest confidence of what they waited for; null: that is unknown"),
        DOUBTFUL,
    ),
)
