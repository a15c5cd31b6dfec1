"""Which stretches of a sequence come back? Maximal repeats, by a suffix array.

A repeat is maximal where no element before or after it could be added at all its occurrences: what is left out are its
parts that occur nowhere else. A sequence of n elements has fewer than n of them. Everything is done with arrays, in
O(n log^2 n): suffixes are ranked by doubling (Manber and Myers, 1993), common prefixes are compared by the ranks of all
doublings, and the repeats are the intervals of the suffix array whose common prefix is longer than those outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Repeats", "maximal_repeats", "separated", "without_overlap"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Repeats:
    """The maximal repeats of a sequence.

    Args:
        suffixes: positions in the sequence, in the order of the suffixes that begin there.
        length: elements of each repeat.
        first: with `last`: the repeat occurs at `suffixes[first : last + 1]`.
        last: see there.
    """

    suffixes: _Ints
    length: _Ints
    first: _Ints
    last: _Ints

    @property
    def count(self) -> _Ints:
        """Occurrences of each, those that overlap too."""
        found: _Ints = self.last - self.first + 1
        return found

    def positions(self, repeat: int) -> _Ints:
        """Where a repeat begins, rising."""
        found: _Ints = np.sort(self.suffixes[self.first[repeat] : self.last[repeat] + 1])
        return found


def separated(elements: _Ints, opens: NDArray[np.bool_]) -> tuple[_Ints, _Ints]:
    """A sequence in which nothing comes back across a border.

    Args:
        elements: at least 0.
        opens: whether a stretch begins with an element; the first always does.

    Returns:
        The elements with a border before each stretch and behind the last, each unlike any other, below 0; and for each
        its row in `elements`, -1 for borders.
    """
    rows = np.r_[np.flatnonzero(opens), len(elements)]
    sequence = np.insert(elements, rows, -1 - np.arange(len(rows)))
    return sequence, np.insert(np.arange(len(elements)), rows, -1)


def maximal_repeats(sequence: _Ints, shortest: int) -> Repeats:
    """The maximal repeats that have at least so many elements, `shortest` >= 1."""
    ranks = _ranks(sequence)
    suffixes = np.argsort(ranks[-1], kind="stable")
    common = _common_prefixes(suffixes, ranks)
    rows = np.flatnonzero(common >= max(shortest, 1))
    first, last = _intervals(common, rows)
    before = np.where(suffixes > 0, ranks[0][suffixes - 1], -1)
    changes = np.cumsum(np.r_[False, before[1:] != before[:-1]]) if len(before) else before
    keys = first * (len(sequence) + 1) + last
    _, chosen = np.unique(keys, return_index=True)
    chosen = chosen[changes[last[chosen]] > changes[first[chosen]]]
    return Repeats(suffixes, common[rows[chosen]], first[chosen], last[chosen])


def without_overlap(positions: _Ints, length: int) -> _Ints:
    """The first of some rising positions, and each that begins where the one kept before has ended."""
    if len(positions) < 2 or int(np.diff(positions).min()) >= length:
        return positions
    kept, at = [], 0
    while at < len(positions):
        kept.append(at)
        at = int(np.searchsorted(positions, positions[at] + length))
    return positions[np.array(kept, dtype=np.int64)]


def _ranks(sequence: _Ints) -> list[_Ints]:
    """The rank of the 1, 2, 4, ... elements from each position on, till no two positions have the same."""
    size = len(sequence)
    _, rank = np.unique(sequence, return_inverse=True)
    ranks = [rank.astype(np.int64)]
    width = 1
    while size and int(ranks[-1].max()) < size - 1:
        behind = np.r_[ranks[-1][width:] + 1, np.zeros(min(width, size), dtype=np.int64)]
        _, rank = np.unique(ranks[-1] * (size + 1) + behind, return_inverse=True)
        ranks.append(rank.astype(np.int64))
        width *= 2
    return ranks


def _common_prefixes(suffixes: _Ints, ranks: list[_Ints]) -> _Ints:
    """How many elements each suffix begins with as the one before it does; -1 for the first."""
    size = len(suffixes)
    left, right = suffixes[:-1].copy(), suffixes[1:].copy()
    common = np.zeros(max(size - 1, 0), dtype=np.int64)
    for level in range(len(ranks) - 1, -1, -1):
        inside = (left < size) & (right < size)
        rank = np.r_[ranks[level], -1]
        same = inside & (rank[np.minimum(left, size)] == rank[np.minimum(right, size)])
        step = same.astype(np.int64) << level
        common, left, right = common + step, left + step, right + step
    return np.r_[-1, common] if size else common


def _intervals(common: _Ints, rows: _Ints) -> tuple[_Ints, _Ints]:
    """For some rows the widest interval of suffixes around them that begin with as many common elements."""
    minima = [np.r_[common, -1]]
    while 1 << len(minima) <= len(common):
        half, below = 1 << (len(minima) - 1), minima[-1]
        minima.append(np.minimum(below, np.r_[below[half:], np.full(half, -1)]))
    wanted = common[rows]
    first, last = rows.copy(), rows.copy()
    for level in range(len(minima) - 1, -1, -1):
        width = 1 << level
        start = first - width
        first = np.where((start >= 0) & (minima[level][np.maximum(start, 0)] >= wanted), start, first)
        fits = last + width < len(common)
        above = minima[level][np.minimum(last + 1, len(common))]
        last = np.where(fits & (above >= wanted), last + width, last)
    return first - 1, last
