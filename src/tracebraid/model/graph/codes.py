"""The codes of a dependency graph, small integers in its arrays; what they mean stands with each."""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["ActivityKind", "EdgeKind", "LatencySource", "Point", "Residual", "TimePart", "Track"]


class ActivityKind(Enum):
    """What an activity is."""

    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    """Of a runtime or driver API, on the host."""
    PYTHON = "python"
    """A Python function."""
    THREAD = "thread"
    """All that a thread does outside of every recorded event: from its first moment to its last."""
    KERNEL = "kernel"
    COPY = "copy"
    """Copy or fill, on a device."""
    COMMUNICATION = "communication"
    """A rank's part in a collective, a send or a receive: on a device, or on the host by its backend."""
    COLLECTIVE = "collective"
    """A collective of several ranks: it starts when the last member has arrived, and ends when all have ended."""


class Point(IntEnum):
    """Which moment of an activity."""

    START = 0
    END = 1


class EdgeKind(IntEnum):
    """What makes a moment wait for another."""

    HOST = 0
    """Time of a thread, from one of its moments to the next: what its innermost event does meanwhile."""
    DEVICE = 1
    """Device work, from its start to its end."""
    TRANSFER = 2
    """From the moment that all members of a collective have arrived to the end of a member."""
    ARRIVAL = 3
    """From the start of a member to the start of the collective; from its end to the collective's end."""
    LAUNCH = 4
    """From the start of a call to the start of the work that it launched."""
    STREAM_ORDER = 5
    """From the end of a stream's work to the start of the next."""
    STREAM_OVERLAP = 6
    """From the start of a stream's work to the start of the next, which begins before the first has ended."""
    STREAM_END = 7
    """From the end of a stream's work to the end of the next, which began before."""
    EVENT_WAIT = 8
    """From the end of work that an event stands for to the start of work that waits for it on another stream; or to
    the end of the wait, where that is work of its own on the device (MTIA)."""
    SYNC = 9
    """From the end of device work to the end of the host's call that waits for it."""
    THREAD = 10
    """From a thread's moment to that of another thread that takes over."""
    FORWARD_BACKWARD = 11
    """From the end of a forward op to the start of its backward op."""
    DATA = 12
    """From the end of an op to the start of one on another thread that reads what it wrote."""
    COMMUNICATION_WAIT = 13
    """From the end of communication of the host to the moment of a thread that waited for it."""
    QUEUE = 14
    """From the start of device work to the end of a call that waited for room in the queue."""


class LatencySource(Enum):
    """What a latency was learned from."""

    GROUP = "group"
    """The median of the samples of its own kind and key."""
    KIND = "kind"
    """The median of all samples of the kind of edge: its own key has too few."""
    LOWEST = "lowest"
    """The lowest of few samples of the kind; 0 where that is too long for a latency."""
    NONE = "none"
    """No sample: such an edge never decided in the trace. It is taken as 0."""


class Residual(IntEnum):
    """Why a moment is later than all that it is known to wait for; mostly by the kind of the latest of these."""

    NONE = 0
    """It is not later."""
    LAUNCH = 1
    """Launch latency beyond what is usual."""
    STREAM = 2
    """A gap on a stream beyond what is usual between two of its works."""
    EVENT_WAIT = 3
    SYNC = 4
    """The host's call returned later than is usual after the device's work."""
    THREAD = 5
    """Scheduling: a thread that took over late."""
    COMMUNICATION = 6
    """After communication, or between arrival and transfer."""
    BEFORE = 7
    """It waits for nothing in the graph, or for its launch alone and starts long after that: what it waited for lies
    before the window, or was not recorded."""
    UNEXPLAINED = 8
    """It came later than all that it waited for, without a reason that is known: so much later than is usual that
    no latency explains it."""


class TimePart(Enum):
    """What a part of measured time is, in a graph's coverage."""

    WORK = "work"
    """What a thread or stream did."""
    LATENCY = "latency"
    """Usual latency."""
    WAITING = "waiting"
    """Until what was waited for had happened."""
    RESIDUAL = "residual"
    """What is not explained."""


class Track(Enum):
    """What the time in a graph's coverage is of."""

    HOST = "host"
    """Threads."""
    DEVICE = "device"
    """Streams."""
