"""A frame is made to fit a table's schema in one place."""

from __future__ import annotations

import polars as pl
import pytest

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text

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
