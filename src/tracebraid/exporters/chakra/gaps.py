"""Delays: what starts later than all that it waits for, as work of its own in front of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.pieces import PieceKind, Pieces, Waits

__all__ = ["Delayed", "delayed"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Delayed:
    """Work with its delays.

    Args:
        pieces: all work, the delays last.
        waits: those of late points are moved to the start of the delay.
        times_ns: of all points, those at which delays start last.
    """

    pieces: Pieces
    waits: Waits
    times_ns: _Ints


def delayed(
    times_ns: _Ints, pieces: Pieces, waits: Waits, belongs: tuple[_Ints, _Ints, NDArray[np.bool_]]
) -> Delayed:
    """Let each point that is later than all that it waits for wait for a delay that makes up the difference.

    A point that waits for nothing is late by the time since the earliest point.

    Args:
        times_ns: of each point.
        pieces: work between points.
        waits: between points.
        belongs: of each point the activity and the lane that a delay before it is of, and whether that is on a device.
    """
    activity, lane, on_device = belongs
    used = np.zeros(len(times_ns), dtype=np.bool_)
    for points in (pieces.start, pieces.end, waits.before, waits.after):
        used[points] = True
    earliest = int(times_ns[used].min()) if used.any() else 0
    ready_ns = np.full(len(times_ns), earliest, dtype=np.int64)
    np.maximum.at(ready_ns, waits.after, times_ns[waits.before])
    ready_ns[pieces.end] = times_ns[pieces.end]
    late = np.flatnonzero(used & (times_ns > ready_ns))
    fresh = len(times_ns) + np.arange(len(late))
    moved = np.arange(len(times_ns))
    moved[late] = fresh
    parts = [pieces]
    for kind, of_device in ((PieceKind.HOST_DELAY, False), (PieceKind.DEVICE_DELAY, True)):
        chosen = on_device[late] == of_device
        point = late[chosen]
        parts.append(Pieces.of((fresh[chosen], point), kind, activity[point], lane=lane[point]))
    return Delayed(
        Pieces.joined(parts), Waits(waits.before, moved[waits.after]), np.r_[times_ns, ready_ns[late]]
    )
