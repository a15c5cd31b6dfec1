"""Maximal repeats against a search by definition."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.analysis.kernels.sequences.repeats import maximal_repeats, separated, without_overlap


def by_definition(sequence: list[int], shortest: int) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    size = len(sequence)
    for start in range(size):
        for end in range(start + 1, size + 1):
            found[tuple(sequence[start:end])].append(start)
    repeats = set()
    for pattern, starts in found.items():
        if len(starts) < 2 or len(pattern) < shortest:
            continue
        before = {sequence[at - 1] if at else "start" for at in starts}
        after = {sequence[at + len(pattern)] if at + len(pattern) < size else "end" for at in starts}
        if len(before) > 1 and len(after) > 1:
            repeats.add((pattern, tuple(starts)))
    return repeats


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 3))
def test_the_repeats_are_those_of_the_definition(sequence: list[int], shortest: int) -> None:
    found = maximal_repeats(np.array(sequence, dtype=np.int64), shortest)
    rows = {
        (tuple(sequence[positions[0] : positions[0] + length]), tuple(positions))
        for row, length in enumerate(found.length.tolist())
        for positions in [found.positions(row).tolist()]
    }
    assert rows == by_definition(sequence, shortest)
    assert len(found.length) == len(rows)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=6))
def test_nothing_comes_back_across_a_border(stretches: list[list[int]]) -> None:
    elements = np.array([element for stretch in stretches for element in stretch], dtype=np.int64)
    opens = np.array([not at for stretch in stretches for at in range(len(stretch))], dtype=np.bool_)
    sequence, rows = separated(elements, opens)
    assert sequence[rows >= 0].tolist() == elements.tolist()
    assert rows[rows >= 0].tolist() == list(range(len(elements)))
    found = maximal_repeats(sequence, 1)
    for repeat, length in enumerate(found.length.tolist()):
        for at in found.positions(repeat):
            assert (rows[at : at + length] >= 0).all()


@given(st.sets(st.integers(0, 60)), st.integers(1, 9))
def test_occurrences_that_are_kept_do_not_overlap(starts: set[int], length: int) -> None:
    positions = np.array(sorted(starts), dtype=np.int64)
    kept, reach = [], -1
    for at in positions.tolist():
        if at >= reach:
            kept.append(at)
            reach = at + length
    assert without_overlap(positions, length).tolist() == kept
