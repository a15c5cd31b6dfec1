from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import growth
from tracebraid.exporters.perfetto.nesting import begins_and_ends, siblings
from tracebraid.wire_format import Ints

_TOLERANCE = 2.5
"""What noise and the logarithm of sorting add to linear growth."""

_SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 6)), max_size=40)


def in_order(spans: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    """Lane, start and end of (lane, start, duration), in the order that is asked for."""
    rows = sorted(spans, key=lambda span: (span[1], -span[2]))
    lane, start, dur = (np.array([row[column] for row in rows], dtype=np.int64) for column in range(3))
    return lane, start, start + dur


def nest(starts: list[int], ends: list[int]) -> bool:
    """Whether no two slices overlap without one holding the other."""
    pairs = list(zip(starts, ends, strict=True))
    return not any(a < c < b < d for a, b in pairs for c, d in pairs)


@given(_SPANS)
def test_slices_of_a_sibling_nest(spans: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_order(spans)
    tracks = defaultdict(list)
    for row, track in enumerate(zip(lane.tolist(), siblings(lane, start, end).tolist(), strict=True)):
        tracks[track].append(row)
    assert all(nest(start[rows].tolist(), end[rows].tolist()) for rows in tracks.values())


@given(_SPANS)
def test_lanes_whose_slices_nest_have_no_siblings(spans: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_order(spans)
    found = siblings(lane, start, end)
    for number in set(lane.tolist()):
        rows = lane == number
        assert (found[rows].max() == 0) == nest(start[rows].tolist(), end[rows].tolist())


@given(_SPANS)
def test_a_stack_closes_each_slice_at_its_end(spans: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_order(spans)
    track = list(zip(lane.tolist(), siblings(lane, start, end).tolist(), strict=True))
    begin, close = begins_and_ends(start, end)
    order = {int(at): (row, False) for row, at in enumerate(begin)}
    order |= {int(at): (row, True) for row, at in enumerate(close)}
    assert sorted(order) == list(range(2 * len(start)))
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)
    last = 0
    for at in range(2 * len(start)):
        row, is_end = order[at]
        moment = int(end[row] if is_end else start[row])
        assert moment >= last
        last = moment
        if is_end:
            assert end[stacks[track[row]].pop()] == end[row]
        else:
            stacks[track[row]].append(row)


@pytest.mark.parametrize("length", [2, 10**9], ids=["few at a time", "all at a time"])
def test_the_time_is_linear_however_many_overlap(length: int) -> None:
    def spread(count: int) -> None:
        start = np.arange(count, dtype=np.int64)
        siblings(np.zeros(count, dtype=np.int64), start, 2 * start + length)

    assert growth(spread, 5_000, 40_000) < 8 * _TOLERANCE
