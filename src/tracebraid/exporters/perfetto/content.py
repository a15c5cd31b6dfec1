"""Content of a timeline in any format: processes with tracks, slices, flows and counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.model.column import Kind
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import CriticalPath
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


class ArgKind(Enum):
    """The type of an argument's values."""

    INT = "integer"
    FLOAT = "floating point"
    BOOL = "boolean"
    TEXT = "text"
    JSON = "JSON text"


class FlowKind(Enum):
    """Meaning of an arrow; the value is its category in Chrome JSON."""

    LAUNCH = "ac2g"
    FORWARD_BACKWARD = "fwdbwd"
    COLLECTIVE = "collective"


class Unit(Enum):
    """Unit of a counter."""

    COUNT = "count"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    PERCENT = "%"


class Texts(Struct, frozen=True, eq=False):
    """A text for each row, as numbers of distinct texts.

    Args:
        numbers: of each row, the text's place among `distinct`; -1 for none.
        distinct: the texts in the order in which they first occur.
    """

    numbers: Ints
    distinct: Sequence[str]


class Arg(Struct, frozen=True, eq=False):
    """An argument that some slices have.

    Args:
        name: its name.
        kind: the type of its values.
        rows: the slices that have it, rising; a slice may have several of a name that repeats in the file.
        values: of each of these: int64, float64, bool, or the number of the text.
        distinct: the texts that `values` counts; empty for numbers.
    """

    name: str
    kind: ArgKind
    rows: Ints
    values: NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_]
    distinct: Sequence[str] = ()


class Flow(Struct, frozen=True, eq=False):
    """Ends of arrows: slices with the same number are joined in the order of their starts.

    Args:
        kind: the meaning of the arrows.
        rows: the slice of each end, rising.
        numbers: the arrow of each end: the same in all processes.
        is_first: whether the arrow begins at this end.
        is_last: whether it ends there.
    """

    kind: FlowKind
    rows: Ints
    numbers: Ints
    is_first: NDArray[np.bool_]
    is_last: NDArray[np.bool_]


class Counter(Struct, frozen=True, eq=False):
    """A value over time.

    Args:
        name: its name.
        unit: its unit.
        ts_ns: when it changes.
        values: the value from then on: int64 or float64.
    """

    name: str
    unit: Unit
    ts_ns: Ints
    values: NDArray[np.int64] | NDArray[np.float64]


class Lane(Struct, frozen=True):
    """A row of slices: a thread, a stream, or what else is to be seen by itself.

    Args:
        name: its name.
        thread_id: the operating system's number of the thread; None if it is not a thread.
    """

    name: str
    thread_id: int | None = None


class Slices(Struct, frozen=True, eq=False):
    """The slices of a process, in the order of their starts, of equal ones the longest first.

    Args:
        lane: the lane of each.
        ts_ns: start.
        dur_ns: duration.
        is_instant: whether it is a moment, which has no duration.
        names: their names.
        categories: their categories.
        args: their arguments.
        flows: the arrows from and to them.
    """

    lane: Ints
    ts_ns: Ints
    dur_ns: Ints
    is_instant: NDArray[np.bool_]
    names: Texts
    categories: Texts
    args: Sequence[Arg] = ()
    flows: Sequence[Flow] = ()

    def __len__(self) -> int:
        return len(self.ts_ns)


class Process(Struct, frozen=True, eq=False):
    """A rank, or what else has tracks of its own.

    Args:
        number: its place among all processes, from 0.
        name: its name.
        labels: what else is to be said of it.
        lanes: its lanes, in the order in which they are shown.
        slices: all of them.
        counters: its counters, shown after the lanes.
        order: processes are shown in the order of this number.
    """

    number: int
    name: str
    labels: Sequence[str]
    lanes: Sequence[Lane]
    slices: Slices
    counters: Sequence[Counter] = ()
    order: int = 0

    @property
    def pid(self) -> int:
        """Return its process id in the new trace: unique, and above 0, which is the idle task."""
        return self.number + 1


def numbered(column: pl.Series) -> Texts:
    """The texts of a column as numbers, in the order in which they first occur.

    The codes of categoricals depend on what else the process has read; these numbers do not.
    """
    codes = column.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    first = np.full(int(codes.max(initial=-1)) + 2, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    first[-1] = -1
    seen = np.flatnonzero(first >= 0)
    seen = seen[np.argsort(first[seen], kind="stable")]
    number: Ints = np.full(len(first), -1, dtype=np.int64)
    number[seen] = np.arange(len(seen))
    return Texts(number[codes], column.gather(first[seen]).cast(pl.String).to_list())


def as_json_text(column: pl.Series) -> pl.Series:
    """A column of lists or arrays of integers as JSON text; null if it is null."""
    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    texts = lists.list.eval(pl.element().cast(pl.String).fill_null("null")).list.join(",")
    return pl.select(pl.format("[{}]", texts).alias(column.name)).to_series()


_MOST_KEYS = 200
"""Arguments with names of their own; what a file names otherwise is put together, so that the time stays linear."""
_FURTHER = "further arguments"


def args_of_timeline(timeline: Timeline, row_of_event: Ints) -> list[Arg]:
    """The arguments of events in the file, each under the name that it has there."""
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
    """Each column but `event_id` as an argument of the events that have a value."""
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


_NAME = "critical path"
_BEFORE_ALL_RANKS = -1
_ARGS = (
    *("step", "order", "rank", "thread", "stream", "kind", "family", "op", "module", "node_id", "shapes"),
    *("work_ns", "residual_ns", "residual"),
)
_JSON = ("shapes",)


def path_process(path: CriticalPath, number: int) -> Process | None:
    """Return the segments of all steps, each beginning at the previous end; None if there are none."""
    if path.segments.is_empty():
        return None
    segments = path.segments.sort("start_ns", "duration_ns", "order", descending=[False, True, False])
    count = segments.height
    args = segments.select(_ARGS).with_row_index("event_id")
    slices = Slices(
        np.zeros(count, dtype=np.int64),
        segments.get_column("start_ns").to_numpy(),
        segments.get_column("duration_ns").to_numpy(),
        np.zeros(count, dtype=np.bool_),
        numbered(segments.get_column("name").cast(pl.String).fill_null("")),
        numbered(segments.get_column("kind")),
        args_of_frame(args, np.arange(count), _JSON),
    )
    return Process(number, _NAME, (), [Lane(_NAME)], slices, order=_BEFORE_ALL_RANKS)
