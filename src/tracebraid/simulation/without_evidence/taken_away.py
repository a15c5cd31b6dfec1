"""What of a graph is taken away for the evidence of a detector."""

from __future__ import annotations

from enum import Enum

__all__ = ["TAKEN_AWAY", "TakenAway"]


class TakenAway(Enum):
    """Which time goes with the evidence."""

    EVENT = "event"
    """The host's event, with all that it calls and waits for."""
    WORK = "work"
    """The work of the event's stream in the evidence's time, as much as is saved of it."""
    RUN = "run"
    """The same, and what the host does from the first launch of this work to the last."""
    COPY = "copy"
    """The event on its device, and the call that issued it."""


TAKEN_AWAY = {
    "allocator-retry": TakenAway.EVENT,
    "costly-recomputation": TakenAway.RUN,
    "data-loader": TakenAway.EVENT,
    "dtype-bounces": TakenAway.RUN,
    "eager-attention": TakenAway.RUN,
    "explicit-sync": TakenAway.EVENT,
    "full-precision-products": TakenAway.WORK,
    "hidable-communication": TakenAway.WORK,
    "item-sync": TakenAway.EVENT,
    "layout-copies": TakenAway.RUN,
    "pageable-copy": TakenAway.COPY,
    "read-sync": TakenAway.EVENT,
    "recompilation": TakenAway.EVENT,
    "recording": TakenAway.EVENT,
    "size-sync": TakenAway.EVENT,
    "small-collectives": TakenAway.RUN,
    "stored-activations": TakenAway.RUN,
    "tiny-products": TakenAway.RUN,
    "unaligned-products": TakenAway.WORK,
    "unbalanced-buckets": TakenAway.WORK,
    "unfused-optimizer": TakenAway.RUN,
}
"""By the detector's name. Of others the evidence is not the time that goes: idle time of a device, a wait for another
rank, time between two events; and of detectors of other packages it is not known."""
