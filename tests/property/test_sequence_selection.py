"""Sequences that come back: no element counts twice, and what is over and over the same is found once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.analysis.kernels.sequences.repeats import maximal_repeats, separated
from tracebraid.analysis.kernels.sequences.selection import disjoint_sequences, sequence_of

stretches = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=25), min_size=1, max_size=4)


def selected(parts: list[list[int]], shortest: int = 2) -> tuple[np.ndarray, list[tuple[np.ndarray, int]]]:
    """The sequence with its borders, and the selected sequences; at stake is the number of pairs of neighbours."""
    opens = np.concatenate([[True, *[False] * (len(part) - 1)] for part in parts])
    sequence, _ = separated(np.concatenate(parts).astype(np.int64), opens)
    repeats = maximal_repeats(sequence, shortest)
    found = (
        sequence_of(sequence, repeats.positions(row), int(repeats.length[row]), shortest)
        for row in range(len(repeats.length))
    )
    candidates = [candidate for candidate in found if candidate is not None]
    return sequence, disjoint_sequences(candidates, lambda at, length: (len(at) * (length - 1), length), 100)


@given(stretches, st.integers(2, 4))
def test_occurrences_are_alike_and_disjoint(parts: list[list[int]], shortest: int) -> None:
    sequence, found = selected(parts, shortest)
    taken: set[int] = set()
    for positions, length in found:
        assert len(positions) >= 2
        assert length >= shortest
        alike = {tuple(sequence[at : at + length].tolist()) for at in positions.tolist()}
        assert len(alike) == 1
        assert min(next(iter(alike))) >= 0, "no border lies in it"
        for at in positions.tolist():
            assert taken.isdisjoint(range(at, at + length))
            taken.update(range(at, at + length))


@given(stretches)
def test_what_is_at_stake_falls(parts: list[list[int]]) -> None:
    worth = [(len(at) * (length - 1), length) for at, length in selected(parts)[1]]
    assert worth == sorted(worth, reverse=True)


# Of few runs, the begun last run may make its part of all runs worth more than the whole runs.
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=6, unique=True), st.integers(4, 40), st.integers(0, 5)
)
def test_a_repetition_is_one_sequence_wherever_it_ends(part: list[int], runs: int, more: int) -> None:
    more = min(more, len(part) - 1)
    _, found = selected([[*part * runs, *part[:more]]])
    assert [(len(at), length) for at, length in found] == [(runs, len(part))]
