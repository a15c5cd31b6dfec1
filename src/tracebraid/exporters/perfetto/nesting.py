"""Which slices can share a track, and in which order do their begins and ends come?

A track holds slices that nest, as its viewer closes the one that was opened last. Of a lane whose slices overlap
without one holding the other, as kernels that run side by side on a stream do, some go to sibling tracks.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tracebraid.wire_format import Ints

__all__ = ["begins_and_ends", "siblings"]

_NESTING_TRACKS = 8
"""Sibling tracks that are searched for one in which a slice nests; further ones take it only once they are free, so
that the time stays linear in the slices however many of them overlap."""


def begins_and_ends(ts_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """The position of each slice's begin and end among all of them, from 0.

    At the same moment ends come before begins, inner ends first; a slice without duration ends right where it begins.

    Args:
        ts_ns: starts, rising; of equal ones the longest first.
        end_ns: ends.
    """
    count = len(ts_ns)
    is_empty = end_ns == ts_ns
    with_length = np.flatnonzero(~is_empty)
    backward = with_length[::-1]
    closing = backward[np.argsort(end_ns[backward], kind="stable")]
    closing_ns = end_ns[closing]
    opened = np.arange(count) + np.cumsum(is_empty) - is_empty
    begin = opened + np.searchsorted(closing_ns, ts_ns, side="right")
    end = begin + 1
    before = np.append(opened, count + np.count_nonzero(is_empty))
    end[closing] = np.arange(len(closing)) + before[np.searchsorted(ts_ns, closing_ns, side="left")]
    return begin, end


def siblings(lane: Ints, ts_ns: Ints, end_ns: Ints) -> Ints:
    """The sibling track of each slice on its lane, from 0: slices of the same lane and sibling nest.

    Args:
        lane: the lane of each slice.
        ts_ns: starts, rising; of equal ones the longest first.
        end_ns: ends.
    """
    found = np.zeros(len(lane), dtype=np.int64)
    for crossing in np.unique(lane[_crossings(lane, ts_ns, end_ns)]):
        rows = np.flatnonzero(lane == crossing)
        found[rows] = _spread(ts_ns[rows].tolist(), end_ns[rows].tolist())
    return found


def _crossings(lane: Ints, ts_ns: Ints, end_ns: Ints) -> Ints:
    """A slice of each lane whose slices do not all nest; empty where all do.

    Walk the begins and ends of a lane: where slices nest, those that open and close the same depth belong together.
    """
    count = len(lane)
    begin, end = begins_and_ends(ts_ns, end_ns)
    row = np.empty(2 * count, dtype=np.int64)
    row[begin], row[end] = np.arange(count), np.arange(count)
    step = np.empty(2 * count, dtype=np.int64)
    step[begin], step[end] = 1, -1
    by_lane = np.argsort(_small(lane[row]), kind="stable")
    row, step = row[by_lane], step[by_lane]
    # Of an end, the depth that it closes: as many ends as begins precede the next lane.
    depth = np.cumsum(step) + (step < 0)
    by_depth = np.argsort(_small(depth), kind="stable")
    opened, closed = row[by_depth].reshape(-1, 2).T
    crossing: Ints = opened[end_ns[opened] != end_ns[closed]]
    return crossing


def _small(numbers: Ints) -> NDArray[np.integer]:
    """As 16 bits where they fit, which numpy sorts by digits."""
    small: NDArray[np.integer] = numbers.astype(np.uint16) if numbers.max(initial=0) < 1 << 16 else numbers
    return small


def _spread(starts: list[int], ends: list[int]) -> list[int]:
    """The sibling track of each slice of a lane: the first in which it nests, or one that is free."""
    stacks: list[list[int]] = [[] for _ in range(_NESTING_TRACKS)]
    busy: list[tuple[int, int]] = []
    found = []
    for start, end in zip(starts, ends, strict=True):
        number = _nesting(stacks, start, end)
        if number is None:
            free = busy and busy[0][0] <= start
            number = heappop(busy)[1] if free else _NESTING_TRACKS + len(busy)
            heappush(busy, (end, number))
        found.append(number)
    return found


def _nesting(stacks: list[list[int]], start: int, end: int) -> int | None:
    """The first track in which a slice nests, whose ends of open slices it extends; None where it nests in none."""
    for number, stack in enumerate(stacks):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or stack[-1] >= end:
            if end > start:
                stack.append(end)
            return number
    return None
