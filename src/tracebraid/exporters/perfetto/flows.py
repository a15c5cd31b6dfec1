"""Flows as fields of the slices that they join."""

from __future__ import annotations

import numpy as np

from tracebraid.exporters.perfetto.content import Flow
from tracebraid.exporters.perfetto.schema import EventField
from tracebraid.wire_format import Fixed64s, Ints, Part, Scattered

__all__ = ["flow_parts"]


def flow_parts(flow: Flow, here: slice, at: Ints, count: int) -> list[Part]:
    """The ends of flows at some packets.

    Both ends carry the same id, which no other flow of the trace has: viewers join them in the order of time, so that
    a kernel that seems to start before its launch keeps its arrow.

    Args:
        flow: the flows.
        here: which of their ends.
        at: the packet of each of these.
        count: number of packets.
    """
    if not len(at):
        return []
    return [Scattered(at, Fixed64s(EventField.FLOW_IDS, flow.numbers[here].astype(np.uint64)), count)]
