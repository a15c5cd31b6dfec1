"""Which place in one sequence is which place in another, where both tell of the same things?"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

__all__ = ["NONE", "Alignment", "align", "gaps"]

NONE = -1
"""What stands for no place."""

_WINDOW = 4096
_WIDEST = 8 * _WINDOW
_SOLID = 8
"""So many matches in a row are no chance: the next window may begin behind them."""
_SEGMENT = 512

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Alignment:
    """For each place of the first sequence its place in the second one, or `NONE`.

    Args:
        first: by the best alignment that matches as early as it can.
        last: by the best alignment that matches as late as it can. Where the two agree there is no other way.
    """

    first: _Ints
    last: _Ints

    @property
    def sure(self) -> _Ints:
        """Where both agree; else `NONE`."""
        return np.where(self.first == self.last, self.first, NONE)


def align(one: _Ints, other: _Ints) -> Alignment:
    """Align two sequences of codes by their longest common subsequence, in time that grows with their lengths.

    Codes that both have once, in the same order, are fixed first. What lies between two of these is aligned in
    windows: within one exactly, by Hyyrö's bit-parallel algorithm; a window begins where the last one was solid. From
    the front that gives the earliest matches, from the back the latest: a window alone does not see that both
    sequences recur, and that one does so once more.
    """
    found = Alignment(np.full(len(one), NONE), np.full(len(one), NONE))
    begin = (0, 0)
    for end in [*_splits(one, other), (len(one), len(other))]:
        here, there = slice(begin[0], end[0]), slice(begin[1], end[1])
        for into, part in zip(
            (found.first, found.last), _align_segment(one[here], other[there]), strict=True
        ):
            into[here] = np.where(part == NONE, NONE, part + begin[1])
        begin = end
    return found


def gaps(matched: _Ints, length: int) -> list[tuple[slice, slice]]:
    """The stretches between the matched places where both sequences have something that is not matched.

    Args:
        matched: for each place of the first sequence its rising place in the second one, or `NONE`.
        length: of the second sequence.
    """
    places = np.flatnonzero(matched != NONE)
    one = np.concatenate([[-1], places, [len(matched)]])
    other = np.concatenate([[-1], matched[places], [length]])
    both = np.flatnonzero((np.diff(one) > 1) & (np.diff(other) > 1))
    return [(slice(one[k] + 1, one[k + 1]), slice(other[k] + 1, other[k + 1])) for k in both.tolist()]


def _splits(one: _Ints, other: _Ints) -> list[tuple[int, int]]:
    """Pairs of places of codes that both have once, both rising, not too close to each other."""
    codes, at_one, counts = np.unique(one, return_index=True, return_counts=True)
    others, at_other, other_counts = np.unique(other, return_index=True, return_counts=True)
    common, i, j = np.intersect1d(
        codes[counts == 1], others[other_counts == 1], assume_unique=True, return_indices=True
    )
    if not len(common):
        return []
    left, right = at_one[counts == 1][i], at_other[other_counts == 1][j]
    order = np.argsort(left)
    left, right = left[order], right[order]
    keep = _longest_rising(right)
    splits: list[tuple[int, int]] = []
    before = (-_SEGMENT, -_SEGMENT)
    for pair in zip(left[keep].tolist(), right[keep].tolist(), strict=True):
        if pair[0] - before[0] >= _SEGMENT and pair[1] - before[1] >= _SEGMENT:
            splits.append(pair)
            before = pair
    return splits


def _longest_rising(values: _Ints) -> _Ints:
    """The places of a longest rising subsequence (patience sorting)."""
    if np.all(np.diff(values) > 0):
        return np.arange(len(values))
    tops: list[int] = []
    places: list[int] = []
    previous = [NONE] * len(values)
    for place, value in enumerate(values.tolist()):
        pile = bisect_left(tops, value)
        previous[place] = places[pile - 1] if pile else NONE
        tops[pile : pile + 1] = [value]
        places[pile : pile + 1] = [place]
    rising = []
    at = places[-1]
    while at != NONE:
        rising.append(at)
        at = previous[at]
    return np.array(rising[::-1])


def _align_segment(one: _Ints, other: _Ints) -> tuple[_Ints, _Ints]:
    """As early as it can, and as late as it can."""
    if max(len(one), len(other)) <= _WINDOW or np.array_equal(one, other):
        return _both_ways(one, other)
    return _in_windows(one, other), _turned(_in_windows(one[::-1], other[::-1]), len(other))


def _in_windows(one: _Ints, other: _Ints) -> _Ints:
    """Matches as early as it can, window after window."""
    matched = np.full(len(one), NONE)
    i = j = 0
    width = _WINDOW
    while i < len(one) and j < len(other):
        i_end, j_end = min(i + width, len(one)), min(j + width, len(other))
        first, last = _both_ways(one[i:i_end], other[j:j_end])
        if (i_end, j_end) == (len(one), len(other)):
            taken = i_end - i
        else:
            taken = _solid(first, last, 3 * width // 4)
            if taken == 0 and width < _WIDEST:
                width *= 2
                continue
        taken = taken or 3 * width // 4
        width = _WINDOW
        part = first[:taken]
        matched[i : i + taken] = np.where(part == NONE, NONE, part + j)
        within = part[part != NONE]
        j += int(within[-1]) + 1 if len(within) else 3 * width // 4
        i += taken
    return matched


def _solid(first: _Ints, last: _Ints, limit: int) -> int:
    """How many places lie before the end of the last solid stretch within the limit; 0: there is none."""
    sure = (first == last) & (first != NONE)
    step = sure[1:] & sure[:-1] & (np.diff(first) == 1)
    begins = np.concatenate([[0], np.flatnonzero(~step) + 1])
    ends = np.append(begins[1:], len(first))
    # A stretch that goes on behind the limit is cut there.
    ends = np.minimum(ends, limit)
    solid = (ends - begins >= _SOLID) & sure[begins]
    ends = ends[solid]
    ends = ends[first[ends - 1] < limit]
    return int(ends[-1]) if len(ends) else 0


def _both_ways(one: _Ints, other: _Ints) -> tuple[_Ints, _Ints]:
    if len(one) == len(other) and np.array_equal(one, other):
        same = np.arange(len(one))
        return same, same
    first = _common(one, other)
    return first, _turned(_common(one[::-1], other[::-1]), len(other))


def _turned(matched: _Ints, length: int) -> _Ints:
    """What was matched from the back, told from the front; `length` is the second sequence's."""
    return np.where(matched == NONE, NONE, length - 1 - matched)[::-1]


def _common(one: _Ints, other: _Ints) -> _Ints:
    matched = np.full(len(one), NONE)
    for block in LCSseq.opcodes(one.tolist(), other.tolist()):
        if block.tag == "equal":
            matched[block.src_start : block.src_end] = np.arange(block.dest_start, block.dest_end)
    return matched
