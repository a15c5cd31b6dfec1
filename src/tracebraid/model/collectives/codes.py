"""What collectives there are, and how members of several ranks are matched and clocks compared."""

from __future__ import annotations

from enum import Enum

__all__ = [
    "BETWEEN_TWO",
    "SAME_CLOCK_NS",
    "UNKNOWN_GROUP",
    "USUAL_DRIFT_PPM",
    "ClockMethod",
    "CollectiveType",
    "MatchMethod",
]


class CollectiveType(str, Enum):
    """What is communicated."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    BARRIER = "barrier"
    SEND = "send"
    RECEIVE = "recv"
    SEND_RECEIVE = "send_recv"
    """Sends and receives in a single kernel."""


BETWEEN_TWO = (CollectiveType.SEND, CollectiveType.RECEIVE, CollectiveType.SEND_RECEIVE)
"""What is not among all ranks of a group."""


class MatchMethod(str, Enum):
    """By what the members of a collective were matched, the most certain first."""

    COMMUNICATOR_SEQUENCE = "communicator and sequence"
    GROUP_SEQUENCE = "process group and sequence"
    GROUP_ORDER = "process group and order"
    """Type and size agree all along the order."""
    ALIGNED_ORDER = "process group and aligned order"
    """Windows differ, or members are missing: order, type and size were aligned."""
    TIME = "time"
    """Several orders fit; the times decide."""


class ClockMethod(str, Enum):
    """How the offset of a rank's clock is known."""

    REFERENCE = "reference"
    """All others are compared with it."""
    SAME_HOST = "same host"
    """It is of the host of the reference, or of a rank whose offset is known."""
    COLLECTIVES = "collectives"
    """From the ends of matched collectives."""
    UNKNOWN = "unknown"
    """Nothing allows an estimate; its times are used as they are."""


SAME_CLOCK_NS = 100_000
"""What ranks of a clock may seem to be apart: events are taken before and after the exchange, and a device's times are
converted to its host's clock."""

UNKNOWN_GROUP = "unknown"
"""The name of a group of which traces say nothing."""
USUAL_DRIFT_PPM = 100.0
"""What a drift that was not measured may be: the tolerance of an oscillator."""
