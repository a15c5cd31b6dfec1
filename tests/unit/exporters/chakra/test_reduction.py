"""The transitive reduction: as brute force finds it, whatever the lanes, in however many passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.exporters.chakra import reduction
from tracebraid.exporters.chakra.reduction import Reduction, reduced

if TYPE_CHECKING:
    from collections.abc import Callable

Pairs = list[tuple[int, int]]


def ints(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def reduce(pairs: Pairs, lane: list[int]) -> Reduction:
    return reduced(ints([pair[0] for pair in pairs]), ints([pair[1] for pair in pairs]), ints(lane))


def pairs_of(found: Reduction) -> Pairs:
    return list(zip(found.before.tolist(), found.after.tolist(), strict=True))


def by_brute_force(pairs: Pairs, nodes: int) -> Pairs:
    """What remains where no other dependency of the same node has waited for it."""
    ancestors: list[set[int]] = []
    for row in range(nodes):
        own = {before for before, after in pairs if after == row}
        ancestors.append(own.union(*(ancestors[other] for other in own)))
    return sorted(
        (
            (before, after)
            for before, after in set(pairs)
            if not any(before in ancestors[other] for other, waits in pairs if waits == after)
        ),
        key=lambda pair: (pair[1], pair[0]),
    )


@st.composite
def graphs(draw: Callable[..., int]) -> tuple[Pairs, list[int]]:
    nodes = draw(st.integers(1, 30))
    lane = [draw(st.integers(0, 3)) for _ in range(nodes)]
    pairs = []
    for row in range(1, nodes):
        former = [other for other in range(row) if lane[other] == lane[row]]
        if former and draw(st.integers(0, 5)):
            pairs.append((former[-1], row))
        pairs += [(draw(st.integers(0, row - 1)), row) for _ in range(draw(st.integers(0, 4)))]
    return pairs, lane


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_it_is_the_one_reduction_of_the_graph(graph: tuple[Pairs, list[int]]) -> None:
    pairs, lane = graph
    found = reduce(pairs, lane)
    assert pairs_of(found) == by_brute_force(pairs, len(lane))
    assert (found.implied, found.untested) == (len(pairs) - len(found.before), 0)


@settings(max_examples=30, deadline=None)
@given(graphs(), st.integers(1, 3))
def test_it_is_the_same_in_several_passes(graph: tuple[Pairs, list[int]], at_once: int) -> None:
    pairs, lane = graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "_CLOCK_ENTRIES", at_once * len(lane))
        assert pairs_of(reduce(pairs, lane)) == by_brute_force(pairs, len(lane))


def test_a_graph_that_is_too_wide_keeps_what_was_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of the first ten rows go into row 10; row 11 waits for all of these again.
    pairs = [(row, 10) for row in range(10)] + [(row, 11) for row in range(11)]
    assert pairs_of(reduce(pairs, [0] * 12)) == by_brute_force(pairs, 12)
    monkeypatch.setattr(reduction, "_CLOCK_ENTRIES", 12)
    monkeypatch.setattr(reduction, "_MOST_PASSES", 3)
    found = reduce(pairs, [0] * 12)
    assert found.implied < 10
    assert found.untested > 0
    assert set(by_brute_force(pairs, 12)) <= set(pairs_of(found)) <= set(pairs)


def test_threads_and_streams_share_few_entries() -> None:
    """A call launches a kernel that waits for the stream as well; the host waits for each hundredth."""
    calls, kernels = np.arange(0, 20_000, 2), np.arange(1, 20_000, 2)
    before = np.r_[calls[:-1], calls, kernels[:-1], kernels[::100][:-1]]
    after = np.r_[calls[1:], kernels, kernels[1:], calls[1::100][: len(kernels[::100]) - 1]]
    lane = np.arange(20_000) % 2
    order = np.lexsort((-before, after))
    first = np.searchsorted(after[order], np.arange(20_001))
    assert len(np.unique(reduction._chains(first, before[order], lane))) == 2
    assert reduced(before, after, lane).untested == 0


def test_no_node_has_no_dependency() -> None:
    assert len(reduce([], []).before) == 0
    assert pairs_of(reduce([(0, 1), (0, 1)], [0, 0])) == [(0, 1)]
