"""Sets of moments on a line: how much of a window some intervals cover, overlaps counted once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cover", "cover_of", "owned"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cover:
    """The union of some intervals, disjoint and in order, and how much lies before each of them.

    Args:
        starts: starts of the intervals, rising.
        ends: their ends; each is at most the next start.
        before: length of all intervals before each.
    """

    starts: _Ints
    ends: _Ints
    before: _Ints

    @property
    def length(self) -> int:
        """Length of the whole union."""
        return int((self.ends - self.starts).sum())

    def up_to(self, moments: _Ints) -> _Ints:
        """How much of the union lies before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments), dtype=np.int64)
        interval = np.maximum(np.searchsorted(self.starts, moments, side="right") - 1, 0)
        into = np.clip(moments - self.starts[interval], 0, self.ends[interval] - self.starts[interval])
        covered: _Ints = self.before[interval] + into
        return covered

    def within(self, starts: _Ints, ends: _Ints) -> _Ints:
        """How much of the union lies in each window [start, end)."""
        return self.up_to(ends) - self.up_to(starts)

    def shared_within(self, other: Cover, starts: _Ints, ends: _Ints) -> _Ints:
        """How much of each window [start, end) both unions cover."""
        shared = other.within(self.starts, self.ends)
        before = np.cumsum(shared) - shared

        def up_to(moments: _Ints) -> _Ints:
            if not len(self.starts):
                return np.zeros(len(moments), dtype=np.int64)
            interval = np.maximum(np.searchsorted(self.starts, moments, side="right") - 1, 0)
            reach = np.clip(moments, self.starts[interval], self.ends[interval])
            covered: _Ints = before[interval] + other.within(self.starts[interval], reach)
            return covered

        return up_to(ends) - up_to(starts)


def owned(starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
    """Of each interval the part in which none that starts before it runs; these parts are disjoint.

    Args:
        starts: starts, rising; of equal starts the first in order comes first.
        ends: ends, none before its start.
    """
    reach = np.r_[starts[:1], np.maximum.accumulate(ends)[:-1]] if len(starts) else starts
    first = np.maximum(starts, reach)
    return first, np.maximum(ends, first)


def cover_of(starts: _Ints, ends: _Ints) -> Cover:
    """The union of the intervals [start, end), in any order; an interval without length covers nothing."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends) if len(ends) else ends
    opens = np.r_[True, starts[1:] > reach[:-1]] if len(starts) else np.empty(0, dtype=np.bool_)
    first = np.flatnonzero(opens)
    merged_starts = starts[first]
    merged_ends = (
        np.maximum(reach[np.r_[first[1:] - 1, len(reach) - 1]], merged_starts) if len(first) else ends
    )
    length = merged_ends - merged_starts
    return Cover(merged_starts, merged_ends, np.cumsum(length) - length)
