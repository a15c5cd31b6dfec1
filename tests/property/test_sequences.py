"""Aligned sequences: what is sure is true, and found in time that grows with their length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.linking.alignment.sequences import NONE, align, gaps

codes = st.lists(st.integers(0, 5), max_size=40).map(lambda found: np.array(found, dtype=np.int64))


@given(codes, codes)
def test_pairs_rise_and_are_of_equal_codes(one: np.ndarray, other: np.ndarray) -> None:
    found = align(one, other)
    for way in (found.first, found.last, found.unambiguous):
        matched = way != NONE
        assert np.all(np.diff(way[matched]) > 0)
        assert np.array_equal(one[matched], other[way[matched]])
    assert (found.first != NONE).sum() == (found.last != NONE).sum()


@given(codes)
def test_equal_sequences_are_sure_throughout(one: np.ndarray) -> None:
    assert np.array_equal(align(one, one.copy()).unambiguous, np.arange(len(one)))


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_of_different_codes_all_that_is_there_is_found(kept: list[bool]) -> None:
    one = np.arange(len(kept))
    there = np.flatnonzero(kept)
    expected = np.full(len(kept), NONE)
    expected[there] = np.arange(len(there))
    assert np.array_equal(align(one, there).unambiguous, expected)


@given(st.integers(1, 20), st.integers(1, 20))
def test_of_equal_codes_none_is_sure_where_their_numbers_differ(many: int, few: int) -> None:
    sure = align(np.zeros(many, np.int64), np.zeros(few, np.int64)).unambiguous
    assert np.all(sure == NONE) == (many != few)


@given(codes, codes)
def test_gaps_are_what_is_left_on_both_sides(one: np.ndarray, other: np.ndarray) -> None:
    sure = align(one, other).unambiguous
    for left, right in gaps(sure, len(other)):
        assert np.all(sure[left] == NONE)
        assert not np.isin(np.arange(right.start, right.stop), sure).any()
        assert left.stop > left.start
        assert right.stop > right.start


def test_equal_codes_over_several_windows_rise() -> None:
    found = align(np.zeros(9000, np.int64), np.zeros(9500, np.int64))
    for way in (found.first, found.last):
        assert np.all(np.diff(way[way != NONE]) > 0)


@pytest.mark.parametrize(("many", "few"), [(1001, 1000), (1000, 1001), (4000, 1)])
def test_over_several_windows_too_nothing_is_sure_of_what_recurs(many: int, few: int) -> None:
    pattern = np.array([0, 1, 2, 1, 3], np.int64)
    assert np.all(align(np.tile(pattern, many), np.tile(pattern, few)).unambiguous == NONE)


@pytest.mark.parametrize("inserted", [0, 1, 500, 3000])
def test_long_sequences_over_many_windows(inserted: int) -> None:
    random = np.random.default_rng(inserted)
    steps = np.tile(random.integers(0, 60, 930), 40)
    kept = random.random(len(steps)) >= 0.01
    other = steps[kept]
    place = np.where(kept, np.cumsum(kept) - 1, NONE)
    if inserted:
        other = np.insert(other, 10_000, np.full(inserted, 99))
        place = np.where(place >= 10_000, place + inserted, place)
    sure = align(steps, other).unambiguous
    matched = sure != NONE
    assert (sure[matched] == place[matched]).mean() > 0.999
    assert (sure[place != NONE] == place[place != NONE]).mean() > 0.97
