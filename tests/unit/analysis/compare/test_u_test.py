"""The test of Mann and Whitney against all ways to deal values to two samples, and what it promises."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tracebraid.analysis.compare.u_test import ALPHA, compare_rows, holm


def u_of(first: list[int], second: list[int]) -> float:
    return sum((b > a) + 0.5 * (b == a) for a in first for b in second)


def probability(first: list[int], second: list[int]) -> float:
    """The share of all ways to deal the values that are as far off."""
    both = first + second
    middle = len(first) * len(second) / 2
    off = abs(u_of(first, second) - middle)
    found = []
    for chosen in combinations(range(len(both)), len(second)):
        rest = [both[i] for i in range(len(both)) if i not in chosen]
        found.append(abs(u_of(rest, [both[i] for i in chosen]) - middle) >= off - 1e-9)
    return sum(found) / len(found)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 5), (4, 4), (6, 6), (5, 7)])
def test_without_ties_the_probability_is_exact(first: int, second: int) -> None:
    values = np.random.default_rng(first * 10 + second).permutation(1000)[: first + second].tolist()
    a, b = values[:first], values[first:]
    tested = compare_rows(np.array([a]), np.array([b]))
    assert tested.p[0] == pytest.approx(probability(a, b))


def test_with_ties_the_probability_is_not_below_what_counting_allows() -> None:
    a, b = [5, 5, 5, 5], [6, 6, 6, 6]
    assert compare_rows(np.array([a]), np.array([b])).p[0] >= probability(a, b)


def test_rows_that_are_all_equal_do_not_differ() -> None:
    values = np.full((3, 20), 7, dtype=np.int64)
    tested = compare_rows(values, values)
    assert tested.p.tolist() == [1.0] * 3
    assert tested.shift.tolist() == tested.low.tolist() == tested.high.tolist() == [0.0] * 3


def test_fewer_than_six_of_each_have_no_interval_and_nothing_is_significant() -> None:
    for count in range(1, 6):
        a = np.arange(count)[None, :]
        tested = compare_rows(a, a + 1000)
        assert np.isnan(tested.low[0])
        assert np.isnan(tested.high[0])
        assert tested.p[0] > ALPHA
        assert tested.shift[0] == 1000
    six = compare_rows(np.arange(6)[None, :], np.arange(6)[None, :] + 1000)
    assert six.p[0] <= ALPHA
    assert six.low[0] > 0


def test_an_empty_sample_says_nothing() -> None:
    tested = compare_rows(np.empty((2, 0), dtype=np.int64), np.ones((2, 3), dtype=np.int64))
    assert tested.p.tolist() == [1.0, 1.0]
    assert np.isnan(tested.low).all()


@pytest.mark.parametrize("count", [20, 49, 60, 300])
def test_the_interval_leaves_0_out_where_it_is_significant_and_negates_with_its_runs(count: int) -> None:
    rng = np.random.default_rng(count)
    a = np.rint(rng.normal(1e8, 1.5e6, (300, count))).astype(np.int64)
    b = np.rint(rng.normal(1.005e8, 1.5e6, (300, count))).astype(np.int64)
    tested, swapped = compare_rows(a, b), compare_rows(b, a)
    leaves_out = (tested.low > 0) | (tested.high < 0)
    # Of many values the interval is computed from quantiles: a difference at its very end may be called otherwise.
    assert (leaves_out == (tested.p <= ALPHA)).mean() >= (1.0 if count <= 49 else 0.97)
    assert (tested.shift == -swapped.shift).all()
    assert (tested.low == -swapped.high).all()
    assert tested.p == pytest.approx(swapped.p)
    assert (tested.low <= tested.shift).all()
    assert (tested.shift <= tested.high).all()


@pytest.mark.parametrize("count", [8, 20, 60])
def test_the_interval_holds_the_true_difference_as_often_as_it_says(count: int) -> None:
    rng = np.random.default_rng(7)
    a = np.rint(1e8 * rng.lognormal(0, 0.02, (2000, count))).astype(np.int64)
    b = np.rint(1e8 * rng.lognormal(0, 0.02, (2000, count))).astype(np.int64) + 3_000_000
    tested = compare_rows(a, b)
    holds = (tested.low <= 3e6) & (tested.high >= 3e6)
    assert holds.mean() >= 1 - 3 * ALPHA


def test_holm_raises_the_least_by_their_number_and_never_falls() -> None:
    p = np.array([0.01, 0.04, 0.001, 0.5])
    assert holm(p).tolist() == pytest.approx([0.03, 0.08, 0.004, 0.5])
    assert holm(np.array([0.3, 0.2])).tolist() == pytest.approx([0.4, 0.4])
    assert holm(np.empty(0)).tolist() == []
