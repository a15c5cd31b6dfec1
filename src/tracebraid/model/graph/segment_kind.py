"""What the segments of a critical path are."""

from __future__ import annotations

from enum import Enum

__all__ = ["WAITING_KINDS", "SegmentKind"]


class SegmentKind(Enum):
    """What happens in a segment of a critical path."""

    HOST_OP = "host op"
    """A thread is in an op, outside of what it calls."""
    ANNOTATION = "annotation"
    """A thread is in an annotation, outside of any op."""
    CALL = "call"
    """A call of a runtime or driver API."""
    PYTHON = "python"
    """A Python function, outside of what it calls."""
    THREAD = "thread"
    """A thread outside of every recorded event."""
    KERNEL = "kernel"
    COPY = "copy"
    """A copy or fill on a device."""
    TRANSFER = "transfer"
    """Communication, after the last member has arrived."""
    MEMBER_WAIT = "waiting for a member"
    """Communication that has not begun, since a member is not there."""
    LAUNCH_LATENCY = "launch latency"
    """The usual time from a call to the start of the work that it launched."""
    STREAM_GAP = "stream gap"
    """The usual time between two works of a stream."""
    EVENT_WAIT = "event wait"
    """The usual time from the work that an event stands for to the work of another stream that waits for it."""
    SYNC = "sync"
    """The usual time from the end of device work to the end of the call that waits for it."""
    QUEUE = "full queue"
    """The usual time from the start of device work to the end of a call that waited for room in the queue."""
    HANDOVER = "hand-over"
    """The usual time until another thread takes over."""
    OTHER = "other"
    """Work of an event whose category is unknown."""
    RESIDUAL = "residual"
    """Later than everything that it is known to wait for (`Residual`)."""


WAITING_KINDS = (
    SegmentKind.MEMBER_WAIT,
    SegmentKind.LAUNCH_LATENCY,
    SegmentKind.STREAM_GAP,
    SegmentKind.EVENT_WAIT,
    SegmentKind.SYNC,
    SegmentKind.QUEUE,
    SegmentKind.HANDOVER,
    SegmentKind.RESIDUAL,
)
"""The kinds in which nothing is computed, copied or transferred."""
