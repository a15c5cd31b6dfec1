"""Rows that are kept of a table."""

from __future__ import annotations

import polars as pl

from tracebraid.model.report.bounded import most_rows, thinned


def test_the_rows_with_most_are_kept_in_their_order() -> None:
    frame = pl.DataFrame({"name": list("abcd"), "x_ns": [1, 9, 5, None], "y_ns": [0, 0, 5, 3]})
    assert most_rows(frame, 2, ("x_ns", "y_ns")).get_column("name").to_list() == ["b", "c"]
    assert most_rows(frame, 4, ("x_ns",)).equals(frame)
    assert most_rows(frame, 1).get_column("name").to_list() == ["a"]


def test_rows_of_equal_size_are_not_more_than_asked_for() -> None:
    assert most_rows(pl.DataFrame({"x_ns": [7] * 10}), 3, ("x_ns",)).height == 3


def test_a_thinned_series_keeps_its_extremes_and_its_order() -> None:
    values = [index % 7 for index in range(1000)]
    values[500], values[501] = 99, -99
    frame = pl.DataFrame({"device": ["0"] * 1000, "ts_ns": range(0, 3000, 3), "length": values})
    found = thinned(frame, 100, "length")
    assert found.height <= 100
    assert {99, -99} <= set(found.get_column("length").to_list())
    assert found.get_column("ts_ns").is_sorted()


def test_every_series_is_thinned_on_its_own() -> None:
    frame = pl.DataFrame(
        {"device": ["0", "1"] * 500, "ts_ns": range(1000), "length": [1, 1000] * 500},
    )
    found = thinned(frame, 40, "length")
    assert found.height <= 40
    assert set(found.get_column("device").to_list()) == {"0", "1"}
