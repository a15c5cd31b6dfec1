"""Which of the sequences that come back count, and where, so that no element counts twice?"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.kernels.sequences.repeats import without_overlap

__all__ = ["disjoint_sequences", "sequence_of"]

_Ints = NDArray[np.int64]
_Sequence = tuple[_Ints, int]
"""Where a sequence begins, rising, and how many elements it has."""


def sequence_of(sequence: _Ints, positions: _Ints, length: int, shortest: int) -> _Sequence | None:
    """What a repeat is counted as; None where it is a shorter one over and over.

    Of one element in a row whole runs count. A repeat that begins again before it ends is cut to where it does: of
    `abababa` the repeat `aba` becomes `ab`, which comes three times.

    Args:
        sequence: elements, with a border before and behind each stretch.
        positions: where the repeat begins, rising.
        length: its elements.
        shortest: elements of a sequence, at least.
    """
    part = sequence[positions[0] : positions[0] + length]
    if (part == part[0]).all():
        whole = (sequence[positions - 1] != part[0]) & (sequence[positions + length] != part[0])
        return positions[whole], length
    if 2 * _multiple(_period(part), shortest) <= length:
        return None
    again = _multiple(int(np.diff(positions).min()), shortest)
    return positions, min(again, length)


def disjoint_sequences(
    candidates: list[_Sequence], at_stake: Callable[[_Ints, int], tuple[int, ...]], most: int
) -> list[_Sequence]:
    """Sequences of which no two occurrences overlap, chosen greedily; each with the occurrences that count.

    Args:
        candidates: may overlap each other and themselves.
        at_stake: what a sequence at some positions is worth: the greatest is chosen first, then counts what is left of
            the others; those are dropped that come back no more.
        most: sequences that are chosen at most.
    """
    size = max((int(positions[-1]) + length for positions, length in candidates if len(positions)), default=0)
    taken = np.zeros(size, dtype=np.int64)
    free = [(number, without_overlap(*candidate)) for number, candidate in enumerate(candidates)]
    heap = [_entry(at_stake, number, at, candidates[number][1]) for number, at in free if len(at) > 1]
    heapify(heap)
    chosen: list[_Sequence] = []
    before = _sums(taken)
    while heap and len(chosen) < most:
        number = heap[0][1]
        positions, length = candidates[number]
        left = without_overlap(positions[before[positions + length] == before[positions]], length)
        entry = _entry(at_stake, number, left, length) if len(left) > 1 else None
        if entry is not None and entry > heap[0]:
            heapreplace(heap, entry)
            continue
        heappop(heap)
        if entry is not None:
            chosen.append((left, length))
            taken[(left[:, None] + np.arange(length)).ravel()] = 1
            before = _sums(taken)
    return chosen


def _entry(
    at_stake: Callable[[_Ints, int], tuple[int, ...]], number: int, positions: _Ints, length: int
) -> tuple[tuple[int, ...], int]:
    """What a heap yields first where most is at stake."""
    return tuple(-value for value in at_stake(positions, length)), number


def _sums(taken: _Ints) -> _Ints:
    found: _Ints = np.r_[0, np.cumsum(taken)]
    return found


def _period(part: _Ints) -> int:
    """The least distance, of at most half its length, by which a sequence is itself moved on; else its length."""
    text, size = part.tobytes(), part.itemsize
    half = text[: (len(part) - len(part) // 2) * size]
    at = text.find(half, 1)
    while at >= 0:
        if at % size == 0 and text[at:] == text[:-at]:
            return at // size
        at = text.find(half, at + 1)
    return len(part)


def _multiple(distance: int, least: int) -> int:
    """The least multiple of a distance that is at least so much."""
    return -(-least // distance) * distance
