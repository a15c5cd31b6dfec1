"""Delays: what starts later than all that it waits for, as work of its own in front of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.tasks import TaskKind, Tasks, Waits

__all__ = ["Delayed", "delayed"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Delayed:
    """Work with its delays.

    Args:
        tasks: all work, the delays last.
        waits: those of late points are moved to the start of the delay.
        times_ns: of all points, those at which delays start last.
    """

    tasks: Tasks
    waits: Waits
    times_ns: _Ints


def delayed(
    times_ns: _Ints,
    tasks: Tasks,
    waits: Waits,
    belongs: tuple[_Ints, _Ints, NDArray[np.bool_]],
    begins_ns: int | None = None,
) -> Delayed:
    """Let each point that is later than all that it waits for wait for a delay that makes up the difference.

    A point that waits for nothing is late by the time since the beginning.

    Args:
        times_ns: of each point.
        tasks: work between points.
        waits: between points.
        belongs: of each point the activity and the lane that a delay before it is of, and whether that is on a device.
        begins_ns: when the rank begins; None, or later than that: at its earliest point.
    """
    activity, lane, on_device = belongs
    used = np.zeros(len(times_ns), dtype=np.bool_)
    for points in (tasks.start, tasks.end, waits.before, waits.after):
        used[points] = True
    earliest = int(times_ns[used].min()) if used.any() else 0
    earliest = earliest if begins_ns is None else min(begins_ns, earliest)
    ready_ns = np.full(len(times_ns), earliest, dtype=np.int64)
    np.maximum.at(ready_ns, waits.after, times_ns[waits.before])
    ready_ns[tasks.end] = times_ns[tasks.end]
    late = np.flatnonzero(used & (times_ns > ready_ns))
    fresh = len(times_ns) + np.arange(len(late))
    moved = np.arange(len(times_ns))
    moved[late] = fresh
    parts = [tasks]
    for kind, of_device in ((TaskKind.HOST_DELAY, False), (TaskKind.DEVICE_DELAY, True)):
        chosen = on_device[late] == of_device
        point = late[chosen]
        parts.append(Tasks.of((fresh[chosen], point), kind, activity[point], lane=lane[point]))
    return Delayed(
        Tasks.joined(parts), Waits(waits.before, moved[waits.after]), np.r_[times_ns, ready_ns[late]]
    )
