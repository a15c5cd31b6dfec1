"""Align two sequences of the same program: map positions in one to positions in the other."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

NONE = -1
"""Value of no position."""

_WINDOW = 4096
"""Ops that are aligned at once; time per op grows with it. See docs/linking.md."""
_WIDEST = 8 * _WINDOW
"""Up to which width a window without a solid stretch is doubled."""
_TAKEN = 0.75
"""Share of a window whose matches count: near its end they depend on later elements."""
_SOLID = 8
"""Number of consecutive matches beyond chance, after which the next window may begin."""
_SEGMENT = 512
"""Ops between two fixed codes at least, so that segments are few. Chosen."""

_Ints = NDArray[np.int64]


class Alignment(Struct, frozen=True):
    """For each position of the first sequence its position in the second one, or `NONE`.

    Args:
        first: by the best alignment that matches as early as it can.
        last: by the best alignment that matches as late as it can. Where the two agree there is no other way.
    """

    first: _Ints
    last: _Ints

    @property
    def unambiguous(self) -> _Ints:
        """Position if both agree; else `NONE`."""
        return np.where(self.first == self.last, self.first, NONE)


def align(left: _Ints, right: _Ints) -> Alignment:
    """Align two sequences of codes by their longest common subsequence, in time that grows with their lengths.

    Codes that both have once, in the same order, are fixed first. What lies between two of these is aligned in
    windows: within one exactly, by Hyyrö's bit-parallel algorithm; a window begins where the last one was solid. From
    the front that gives the earliest matches, from the back the latest: a window alone does not see that both
    sequences recur, and that one does so once more.
    """
    found = Alignment(np.full(len(left), NONE), np.full(len(left), NONE))
    begin = (0, 0)
    for end in [*_splits(left, right), (len(left), len(right))]:
        here, there = slice(begin[0], end[0]), slice(begin[1], end[1])
        for into, part in zip(
            (found.first, found.last), _align_segment(left[here], right[there]), strict=True
        ):
            into[here] = np.where(part == NONE, NONE, part + begin[1])
        begin = end
    return found


def gaps(matched: _Ints, length: int) -> list[tuple[slice, slice]]:
    """Return the stretches between matched positions in which both sequences have unmatched elements."""
    matched_at = np.flatnonzero(matched != NONE)
    left = np.concatenate([[-1], matched_at, [len(matched)]])
    right = np.concatenate([[-1], matched[matched_at], [length]])
    both = np.flatnonzero((np.diff(left) > 1) & (np.diff(right) > 1))
    return [(slice(left[k] + 1, left[k + 1]), slice(right[k] + 1, right[k + 1])) for k in both.tolist()]


def _splits(left: _Ints, right: _Ints) -> list[tuple[int, int]]:
    """Pairs of positions of codes that both have once, both rising, not too close to each other."""
    codes, first_at_left, counts = np.unique(left, return_index=True, return_counts=True)
    right_codes, first_at_right, right_counts = np.unique(right, return_index=True, return_counts=True)
    common, i, j = np.intersect1d(
        codes[counts == 1], right_codes[right_counts == 1], assume_unique=True, return_indices=True
    )
    if not len(common):
        return []
    left_at, right_at = first_at_left[counts == 1][i], first_at_right[right_counts == 1][j]
    order = np.argsort(left_at)
    left_at, right_at = left_at[order], right_at[order]
    keep = _longest_ascending(right_at)
    splits: list[tuple[int, int]] = []
    before = (-_SEGMENT, -_SEGMENT)
    for pair in zip(left_at[keep].tolist(), right_at[keep].tolist(), strict=True):
        if pair[0] - before[0] >= _SEGMENT and pair[1] - before[1] >= _SEGMENT:
            splits.append(pair)
            before = pair
    return splits


def _longest_ascending(values: _Ints) -> _Ints:
    """The positions of a longest rising subsequence (patience sorting)."""
    if np.all(np.diff(values) > 0):
        return np.arange(len(values))
    tops: list[int] = []
    top_positions: list[int] = []
    previous = [NONE] * len(values)
    for position, value in enumerate(values.tolist()):
        pile = bisect_left(tops, value)
        previous[position] = top_positions[pile - 1] if pile else NONE
        tops[pile : pile + 1] = [value]
        top_positions[pile : pile + 1] = [position]
    rising = []
    at = top_positions[-1]
    while at != NONE:
        rising.append(at)
        at = previous[at]
    return np.array(rising[::-1])


def _align_segment(left: _Ints, right: _Ints) -> tuple[_Ints, _Ints]:
    """Earliest and latest possible position."""
    if max(len(left), len(right)) <= _WINDOW or np.array_equal(left, right):
        return _both_ways(left, right)
    return _in_windows(left, right), _reversed(_in_windows(left[::-1], right[::-1]), len(right))


def _in_windows(left: _Ints, right: _Ints) -> _Ints:
    """Matches as early as it can, window after window."""
    matched = np.full(len(left), NONE)
    i = j = 0
    width = _WINDOW
    while i < len(left) and j < len(right):
        i_end, j_end = min(i + width, len(left)), min(j + width, len(right))
        first, last = _both_ways(left[i:i_end], right[j:j_end])
        if (i_end, j_end) == (len(left), len(right)):
            taken = i_end - i
        else:
            taken = _solid(first, last, int(_TAKEN * width))
            if taken == 0 and width < _WIDEST:
                width *= 2
                continue
        taken = taken or int(_TAKEN * width)
        width = _WINDOW
        part = first[:taken]
        matched[i : i + taken] = np.where(part == NONE, NONE, part + j)
        within = part[part != NONE]
        j += int(within[-1]) + 1 if len(within) else int(_TAKEN * width)
        i += taken
    return matched


def _solid(first: _Ints, last: _Ints, limit: int) -> int:
    """Return the end position of the last solid stretch within the limit; 0: none."""
    agreed = (first == last) & (first != NONE)
    step = agreed[1:] & agreed[:-1] & (np.diff(first) == 1)
    begins = np.concatenate([[0], np.flatnonzero(~step) + 1])
    ends = np.append(begins[1:], len(first))
    # A stretch that goes on behind the limit is cut there.
    ends = np.minimum(ends, limit)
    solid = (ends - begins >= _SOLID) & agreed[begins]
    ends = ends[solid]
    ends = ends[first[ends - 1] < limit]
    return int(ends[-1]) if len(ends) else 0


def _both_ways(left: _Ints, right: _Ints) -> tuple[_Ints, _Ints]:
    if len(left) == len(right) and np.array_equal(left, right):
        same = np.arange(len(left))
        return same, same
    first = _common(left, right)
    return first, _reversed(_common(left[::-1], right[::-1]), len(right))


def _reversed(matched: _Ints, length: int) -> _Ints:
    """Matches of reversed sequences as matches of the sequences themselves; `length` is the second sequence's."""
    return np.where(matched == NONE, NONE, length - 1 - matched)[::-1]


def _common(left: _Ints, right: _Ints) -> _Ints:
    matched = np.full(len(left), NONE)
    for block in LCSseq.opcodes(left.tolist(), right.tolist()):
        if block.tag == "equal":
            matched[block.src_start : block.src_end] = np.arange(block.dest_start, block.dest_end)
    return matched
