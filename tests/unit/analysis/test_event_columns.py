"""Columns of events, fetched by row."""

from __future__ import annotations

import polars as pl

from tests.unit.linking.made import Host, host_timeline
from tracebraid.analysis.event_columns import event_columns, fetched, rows_of_events

SOME = pl.Series([3, None, 5, 4, 9, 0], dtype=pl.Int64)


def test_rows_are_those_of_the_events_and_null_where_there_is_none() -> None:
    assert rows_of_events(pl.Series([3, 5, 8]), SOME).to_list() == [0, None, 1, None, None, None]


def test_no_events_have_no_rows() -> None:
    assert rows_of_events(pl.Series([], dtype=pl.Int64), SOME).to_list() == [None] * len(SOME)
    assert rows_of_events(pl.Series([3]), SOME.clear()).is_empty()


def test_a_null_row_is_null_in_every_column() -> None:
    table = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert fetched(table, pl.Series([1, None, 0])).rows() == [(2, "y"), (None, None), (1, "x")]


def test_an_empty_table_gives_nulls_of_its_types() -> None:
    found = fetched(pl.DataFrame({"a": [1]}).clear(), pl.Series([None, None], dtype=pl.Int64))
    assert found.rows() == [(None,), (None,)]
    assert found.schema == {"a": pl.Int64}


def test_columns_of_events_have_the_names_that_are_asked_for() -> None:
    timeline = host_timeline([Host("a", 10, 20), Host("b", 30, 35)])
    start, length = event_columns(
        timeline, pl.Series([1, None, 0], dtype=pl.Int64), start_ns="ts_ns", host_ns="dur_ns"
    )
    assert (start.name, start.to_list()) == ("start_ns", [30, None, 10])
    assert (length.name, length.to_list()) == ("host_ns", [5, None, 10])
