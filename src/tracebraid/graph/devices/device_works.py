"""The work of devices as arrays: streams, times and calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.graph.activities import RankActivities
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["DeviceWorks", "device_works"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DeviceWorks:
    """The work of devices, in the order of its activities.

    Args:
        first: the first activity.
        lane: the stream: row of `lanes`.
        start_ns: start.
        end_ns: end.
        call: activity of the call that launched it; -1: not in the trace.
    """

    first: int
    lane: _Ints
    start_ns: _Ints
    end_ns: _Ints
    call: _Ints

    def __len__(self) -> int:
        return len(self.lane)


def device_works(linked: LinkedTrace, activities: RankActivities, times_ns: _Ints) -> DeviceWorks:
    """The work of devices with the times that the graph has.

    Args:
        linked: one rank.
        activities: of the same rank.
        times_ns: of each moment.
    """
    events = device_events(linked)
    call = events.get_column("call_event").fill_null(-1).to_numpy()
    first = activities.first_device
    return DeviceWorks(
        first,
        events.get_column("lane").to_numpy(),
        times_ns[2 * first :: 2],
        times_ns[2 * first + 1 :: 2],
        np.where(call < 0, -1, activities.of_event[call]),
    )
