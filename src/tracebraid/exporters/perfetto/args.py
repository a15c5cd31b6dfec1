"""What is known of each event, as arguments: what the Kineto trace says, under its names, and what linking adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.content import Arg, ArgKind
from tracebraid.exporters.perfetto.numbering import as_json_text, numbered
from tracebraid.model.column import Kind
from tracebraid.model.expressions import as_text
from tracebraid.model.schema.kineto import (
    COLLECTIVES,
    DEVICE_WORK,
    HOST_CALLS,
    HOST_OPS,
    MEMORY,
    PYTHON_FUNCTIONS,
    SYNCS,
)
from tracebraid.model.timeline import Timeline
from tracebraid.wire_format import Ints

__all__ = ["args_of_frame", "args_of_timeline"]

_MOST_KEYS = 200
"""Arguments with names of their own; what a file names otherwise is put together, so that the time stays linear."""
_FURTHER = "further arguments"


def args_of_timeline(timeline: Timeline, row_of_event: Ints) -> list[Arg]:
    """The arguments of events in the file, each under the name that it has there.

    Args:
        timeline: the trace.
        row_of_event: the slice of each of its events; -1: there is none.
    """
    found: list[Arg] = []
    for table in (HOST_OPS, HOST_CALLS, DEVICE_WORK, COLLECTIVES, SYNCS, PYTHON_FUNCTIONS, MEMORY):
        frame = timeline.tables[table.name]
        named = {column.name: column.keys[0] for column in table.columns if column.keys}
        json = {named[column.name] for column in table.columns if column.kind is Kind.JSON}
        found += args_of_frame(frame.select("event_id", *named).rename(named), row_of_event, json)
    unusable = timeline.tables["unusable_durations"].rename({"duration": "unusable duration"})
    found += args_of_frame(unusable, row_of_event)
    found += _extra(timeline.tables["extra_args"], row_of_event)
    return found


def args_of_frame(frame: pl.DataFrame, row_of_event: Ints, json: Iterable[str] = ()) -> list[Arg]:
    """Each column but `event_id` as an argument of the events that have a value.

    Args:
        frame: `event_id`, without nulls, and columns of numbers, booleans, texts or lists of integers.
        row_of_event: the slice of each event; -1: there is none.
        json: columns whose texts are JSON.
    """
    rows = row_of_event[frame.get_column("event_id").to_numpy()] if frame.height else np.empty(0, np.int64)
    order = np.flatnonzero(rows >= 0)
    if not np.all(np.diff(rows[order]) >= 0):
        order = order[np.argsort(rows[order], kind="stable")]
    kept, rows = frame.drop("event_id")[order], rows[order]
    return [arg for column in kept.get_columns() for arg in _arg(column, rows, column.name in json)]


def _arg(column: pl.Series, rows: Ints, is_json: bool) -> Iterator[Arg]:
    if column.null_count() == len(column):
        return
    if column.null_count():
        there = column.is_not_null()
        column, rows = column.filter(there), rows[there.to_numpy()]
    if isinstance(column.dtype, pl.List | pl.Array):
        column, is_json = as_json_text(column), True
    if column.dtype == pl.Boolean:
        yield Arg(column.name, ArgKind.BOOL, rows, column.to_numpy())
    elif column.dtype.is_float():
        yield Arg(column.name, ArgKind.FLOAT, rows, column.to_numpy())
    elif column.dtype.is_integer():
        yield Arg(column.name, ArgKind.INT, rows, column.cast(pl.Int64).to_numpy())
    else:
        texts = numbered(column)
        kind = ArgKind.JSON if is_json else ArgKind.TEXT
        yield Arg(column.name, kind, rows, texts.numbers, texts.distinct)


def _extra(extra: pl.DataFrame, row_of_event: Ints) -> list[Arg]:
    """Arguments that have no column: one for each name, as long as these are not too many."""
    if extra.is_empty():
        return []
    keyed = extra.select("event_id", as_text("key"), "value")
    names = keyed.get_column("key").unique(maintain_order=True)
    found: list[Arg] = []
    few = names.head(_MOST_KEYS)
    for (name,), rows in keyed.filter(pl.col("key").is_in(few.implode())).group_by(
        "key", maintain_order=True
    ):
        values = args_of_frame(rows.select("event_id", "value"), row_of_event, ["value"])
        found += [replace(arg, name=str(name)) for arg in values]
    rest = keyed.filter(~pl.col("key").is_in(few.implode()))
    text = pl.format("{}: {}", "key", "value").alias(_FURTHER)
    return found + args_of_frame(rest.select("event_id", text), row_of_event)
