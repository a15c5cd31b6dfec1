"""Equal texts of some bytes get one number, so that each is looked at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.wire.fields import Slices
from tracebraid.compiled import compiled

__all__ = ["numbered_texts"]

_Ints = NDArray[np.int64]


def numbered_texts(data: bytes, slices: Slices) -> tuple[_Ints, list[bytes]]:
    """The number of each text, in the order of first appearance, and the texts by number."""
    if not len(slices):
        return np.zeros(0, dtype=np.int64), []
    array = np.frombuffer(data, dtype=np.uint8)
    # At most half of the slots are taken, so that a search ends soon.
    slots = np.full(1 << (2 * len(slices)).bit_length(), -1, dtype=np.int64)
    first = np.zeros(len(slices), dtype=np.int64)
    number = np.zeros(len(slices), dtype=np.int64)
    count = _number(array, slices.spans(), slots, first, number)
    rows = first[:count]
    starts, stops = slices.start[rows].tolist(), slices.stop[rows].tolist()
    return number, [data[start:stop] for start, stop in zip(starts, stops, strict=True)]


@compiled
def _number(data: NDArray[np.uint8], spans: _Ints, slots: _Ints, first: _Ints, number: _Ints) -> int:
    """Fill in the number of each text and the first row with each number; returns how many there are."""
    count, last = 0, len(slots) - 1
    for row in range(len(spans)):
        start, size = spans[row, 0], spans[row, 1] - spans[row, 0]
        # FNV-1a, of 64 bits.
        mixed = np.uint64(0xCBF29CE484222325)
        for at in range(size):
            mixed = (mixed ^ np.uint64(data[start + at])) * np.uint64(0x100000001B3)
        slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(last))
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot] = known = count
                first[count] = row
                count += 1
            other = spans[first[known], 0]
            same = spans[first[known], 1] - other == size
            at = 0
            while same and at < size:
                same = data[other + at] == data[start + at]
                at += 1
            if same:
                number[row] = known
                break
            slot = (slot + 1) & last
    return count
