"""What a rank does at a moment before it arrives at a collective."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["SegmentKind"]


class SegmentKind(IntEnum):
    """What a rank does at a moment, the first that holds."""

    KERNEL = 0
    """A kernel, copy or fill runs on its device."""
    COMMUNICATION = 1
    """A collective runs, and nothing else that works."""
    QUEUED = 2
    """Work was launched and has not started, though its device is free."""
    HOST_OP = 3
    """The host is in an op; the innermost counts."""
    CALL = 4
    """The host is in a call of the runtime, outside of ops."""
    DATA = 5
    """The host waits for its data loader."""
    PYTHON = 6
    """The host is in a Python function, outside of ops."""
    NO_EVENT = 7
    """The host is in nothing but annotations, or in nothing."""
