"""Columns of events and of what belongs to them, fetched by row: far cheaper than joining with all events."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.model.timeline import Timeline

__all__ = ["event_columns", "fetched", "rows_of_events"]


def event_columns(timeline: Timeline, events: pl.Series, **columns: str) -> list[pl.Series]:
    """Columns of the table `events` for some events, each under its keyword; null where the event is null.

    Args:
        timeline: the trace; an event's id is its row.
        events: ids of events, with nulls.
        columns: the new name of each column that is fetched.
    """
    table = timeline.events
    return [_fetched(table.get_column(column), events).alias(name) for name, column in columns.items()]


def rows_of_events(events: pl.Series, wanted: pl.Series) -> pl.Series:
    """The row of each wanted event in a table; null for one that is null or not in it.

    Args:
        events: the table's `event_id`, rising, without nulls.
        wanted: ids of events, with nulls.
    """
    if events.is_empty() or wanted.is_empty():
        return pl.Series("row", [None] * len(wanted), dtype=pl.Int64)
    ids, sought = events.to_numpy(), wanted.fill_null(-1).to_numpy()
    rows = np.minimum(np.searchsorted(ids, sought), len(ids) - 1)
    return pl.Series("row", rows, dtype=pl.Int64).set(pl.Series(ids[rows] != sought), None)


def fetched(table: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The rows of a table at some numbers, with null in every column where the number is null."""
    return pl.DataFrame([_fetched(column, rows) for column in table.get_columns()])


def _fetched(column: pl.Series, rows: pl.Series) -> pl.Series:
    if column.is_empty():
        return pl.Series(column.name, [None] * len(rows), dtype=column.dtype)
    return column.gather(rows)
