"""How the transfer of a collective is told from the waiting."""

from __future__ import annotations

from enum import Enum

__all__ = ["TransferMethod"]


class TransferMethod(str, Enum):
    """How the transfer of a collective is told from the waiting, the best first."""

    LAST_ARRIVAL = "last arrival"
    """From the last arrival on: the clocks of the members are known well enough."""
    SHORTEST_MEMBER = "shortest member"
    """The smallest duration of a member: clocks are unknown, or known worse than that, or contradict the order."""
    DURATION = "duration"
    """All of the duration, an upper bound: nobody that it could wait for is there."""
