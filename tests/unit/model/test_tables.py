"""A frame is made to fit a table's schema in one place."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text
from tracebraid.model.name_rules import nearest
from tracebraid.model.report import most_rows, thinned
from tracebraid.model.rows import nearest_ancestors, nearest_rows

_TABLE = Table(
    "made",
    "One row per test.",
    (Column("event_id", Kind.INT, "the event"), Column("name", Kind.NAME, "its name")),
)


def test_a_frame_gets_the_order_and_the_dtypes_of_the_table() -> None:
    frame = pl.DataFrame(
        {"name": ["b", None], "other": [1, 2], "event_id": [7, 8]}, schema_overrides={"event_id": pl.Int8}
    )
    fitted = _TABLE.conform(frame)
    assert dict(fitted.schema) == _TABLE.polars_schema()
    assert list(fitted.schema) == ["event_id", "name"]
    assert fitted.rows() == [(7, "b"), (8, None)]


def test_a_missing_column_is_an_error_or_null_where_that_is_asked_for() -> None:
    frame = pl.DataFrame({"event_id": [7]})
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        _TABLE.conform(frame)
    fitted = _TABLE.conform(frame, fill_missing=True)
    assert dict(fitted.schema) == _TABLE.polars_schema()
    assert fitted.rows() == [(7, None)]


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(pl.exceptions.InvalidOperationError):
        _TABLE.conform(pl.DataFrame({"event_id": ["seven"], "name": ["a"]}))


def test_categoricals_are_text_under_their_names_and_nulls_stay() -> None:
    frame = _TABLE.conform(pl.DataFrame({"event_id": [1, 2], "name": ["a", None]}))
    text = frame.select(as_text("name"))
    assert text.schema == pl.Schema({"name": pl.String})
    assert text.get_column("name").to_list() == ["a", None]


# --- Rows that are kept of a table -------------------------------------------------------------------


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


# --- The walks to the nearest ancestor agree, by mapping and by arrays, at any depth -----------------


#        0 - 1 - 2 - 3     4 - 5
PARENT = [-1, 0, 1, 2, -1, 4]


@pytest.mark.parametrize("wanted_rows", [[], [0], [1, 5], [0, 3], [2, 4], list(range(6))])
def test_arrays_and_mapping_find_the_same(wanted_rows: list[int]) -> None:
    parent, wanted = np.array(PARENT), np.isin(np.arange(6), wanted_rows)
    parent_of = {row: None if up < 0 else up for row, up in enumerate(PARENT)}
    from_itself = [nearest(row, parent_of, wanted_rows) for row in range(6)]
    from_parent = [nearest(parent_of[row], parent_of, wanted_rows) for row in range(6)]
    assert nearest_rows(parent, wanted).tolist() == [-1 if row is None else row for row in from_itself]
    assert nearest_ancestors(parent, wanted).tolist() == [-1 if row is None else row for row in from_parent]


def test_a_root_may_be_its_own_parent() -> None:
    parent, wanted = np.array([0, 0, 1]), np.array([False, True, False])
    assert nearest_rows(parent, wanted).tolist() == [-1, 1, 1]


def test_depth_does_not_matter() -> None:
    count = 100_000
    parent, wanted = np.arange(count) - 1, np.zeros(count, dtype=np.bool_)
    wanted[0] = True
    assert not nearest_rows(parent, wanted).any()
    assert nearest_ancestors(parent, wanted).tolist()[:2] == [-1, 0]
