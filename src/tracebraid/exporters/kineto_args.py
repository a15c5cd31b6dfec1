"""The arguments of Kineto events again, as they stood under `args` in the file."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from tracebraid.model.column import Column, Kind
from tracebraid.model.expressions import as_text
from tracebraid.model.schema import COLLECTIVES, DEVICE_WORK
from tracebraid.model.timeline import Timeline

__all__ = ["device_args"]


def device_args(timeline: Timeline, events: pl.Series) -> dict[int, dict[str, object]]:
    """The arguments of these device events by their names in the file; an event without any is left out."""
    found: dict[int, dict[str, object]] = {}
    for table in (DEVICE_WORK, COLLECTIVES):
        columns = [column for column in table.columns if column.keys]
        frame = timeline.tables[table.name].filter(pl.col("event_id").is_in(events.implode()))
        for event, *values in frame.select("event_id", *(_as_read(column) for column in columns)).iter_rows():
            found.setdefault(event, {}).update(
                (column.keys[0], _as_written(column, value))
                for column, value in zip(columns, values, strict=True)
                if value is not None
            )
    extra = timeline.tables["extra_args"].filter(pl.col("event_id").is_in(events.implode()))
    for event, key, text in extra.select("event_id", as_text("key"), "value").iter_rows():
        found.setdefault(event, {})[key] = msgspec.Raw(text.encode())
    return found


def _as_read(column: Column) -> pl.Expr:
    return as_text(column.name) if column.kind in (Kind.NAME, Kind.JSON) else pl.col(column.name)


def _as_written(column: Column, value: Any) -> object:
    if column.kind is Kind.JSON:
        return msgspec.Raw(value.encode())
    return str(value) if column.kind is Kind.INTS else value
