"""The binomial distribution's tail, and how many blocks are enough."""

from __future__ import annotations

import math

import pytest

from tracebraid.analysis.distributions.binomial import at_least
from tracebraid.analysis.ranks.lateness.chance import blocks_for


@pytest.mark.parametrize(
    ("count", "trials", "probability"), [(3, 5, 0.5), (1, 10, 0.1), (10, 10, 0.25), (7, 40, 1 / 8)]
)
def test_tail(count: int, trials: int, probability: float) -> None:
    expected = sum(
        math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k)
        for k in range(count, trials + 1)
    )
    assert at_least(count, trials, probability) == pytest.approx(expected)


def test_bounds_of_the_tail() -> None:
    assert at_least(0, 10, 0.3) == 1.0
    assert at_least(4, 4, 1.0) == 1.0
    assert at_least(2_000, 2_000, 1 / 64) < 1e-300


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 64])
def test_blocks_are_enough_and_one_less_is_not(ranks: int) -> None:
    blocks = blocks_for(ranks, 0.01)
    assert ranks * at_least(blocks, blocks, 1 / ranks) <= 0.01 * (1 + 1e-9)
    assert ranks * at_least(blocks - 1, blocks - 1, 1 / ranks) > 0.01


def test_a_rank_alone_is_always_the_latest() -> None:
    assert blocks_for(1, 0.01) == 1
