"""How much of a window some intervals cover."""

from __future__ import annotations

import numpy as np

from tracebraid.analysis.time.intervals import Cover, cover_of


def cover(*pairs: tuple[int, int]) -> Cover:
    starts, ends = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    return cover_of(starts, ends)


def pieces(found: Cover) -> list[tuple[int, int]]:
    return list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))


def within(found: Cover, start: int, end: int) -> int:
    return int(found.within(np.array([start]), np.array([end]))[0])


def test_overlaps_count_once() -> None:
    assert pieces(cover((0, 10), (5, 20), (7, 8))) == [(0, 20)]


def test_intervals_that_touch_are_one_piece() -> None:
    assert pieces(cover((0, 10), (10, 20))) == [(0, 20)]


def test_gaps_stay() -> None:
    found = cover((0, 10), (12, 20))
    assert pieces(found) == [(0, 10), (12, 20)]
    assert found.length == 18


def test_the_order_of_the_intervals_does_not_matter() -> None:
    assert pieces(cover((30, 40), (0, 10), (5, 12))) == [(0, 12), (30, 40)]


def test_a_short_interval_inside_a_long_one_does_not_end_it() -> None:
    assert pieces(cover((0, 100), (10, 20), (90, 110))) == [(0, 110)]


def test_an_interval_without_length_covers_nothing() -> None:
    assert cover((5, 5)).length == 0
    assert within(cover((5, 5), (0, 2)), 0, 10) == 2


def test_nothing_covers_nothing() -> None:
    assert cover().length == 0
    assert within(cover(), 0, 100) == 0


def test_a_window_cuts_the_pieces_at_its_edges() -> None:
    found = cover((0, 10), (20, 30))
    assert [within(found, *window) for window in [(5, 25), (10, 20), (-5, 100), (22, 23), (40, 50)]] == [
        10,
        0,
        20,
        1,
        0,
    ]


def test_times_of_today_in_ns_are_exact() -> None:
    now = 1_780_000_000_000_000_000
    assert cover((now, now + 1), (now + 2, now + 5)).length == 4
    assert within(cover((now, now + 10**12)), now + 1, now + 10**12 + 5) == 10**12 - 1
