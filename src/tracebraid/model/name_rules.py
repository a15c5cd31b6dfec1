"""Rules about names, asked once for each distinct name instead of for every event that bears it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum

import numpy as np
import polars as pl
from numpy.typing import NDArray

_Ints = NDArray[np.int64]


def by_name(names: pl.Series, rule: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Apply a rule to each name."""
    if names.dtype != pl.Categorical:
        names = names.cast(pl.Categorical)
    if names.is_empty():
        return rule(names.cast(pl.String)).alias(names.name)
    codes = _codes(names)
    # One row of each name; a null takes the slot behind all codes.
    row = np.full(int(codes.max()) + 2, -1, dtype=np.int64)
    row[codes] = np.arange(len(codes))
    is_used = row >= 0
    said = rule(names[row[is_used]].cast(pl.String))
    return said[(np.cumsum(is_used) - 1)[codes]].alias(names.name)


def flags_by_name(names: pl.Series, flag: Callable[[pl.Expr], pl.Expr]) -> NDArray[np.bool_]:
    """Return whether an expression over text holds for each name; false for null."""

    def rule(distinct: pl.Series) -> pl.Series:
        return distinct.to_frame("name").select(flag(pl.col("name")).fill_null(value=False)).to_series()

    found: NDArray[np.bool_] = by_name(names, rule).to_numpy()
    return found


def mapped_by_name(
    names: pl.Series, function: Callable[[str], object], dtype: type[pl.DataType] = pl.String
) -> pl.Series:
    """What a function of text says of each name; null for null, and where it says None."""

    def rule(distinct: pl.Series) -> pl.Series:
        said = [None if name is None else function(name) for name in distinct.to_list()]
        return pl.Series(said, dtype=dtype)

    return by_name(names, rule)


def distinct_pairs(names: pl.Series, categories: pl.Series) -> tuple[pl.DataFrame, _Ints]:
    """The distinct pairs of a name and a category, and the row in them of each event."""
    columns = [names.cast(pl.Categorical), categories.cast(pl.Categorical)]
    name, category = (by_name(column, _numbers).to_numpy() for column in columns)
    factor = int(category.max(initial=0)) + 1
    key = name * factor + category
    first = np.full(int(key.max(initial=0)) + 1, -1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]
    chosen = first[first >= 0]
    row = np.cumsum(first >= 0) - 1
    pairs = pl.DataFrame([column[chosen] for column in columns])
    return pairs, row[key]


def _numbers(distinct: pl.Series) -> pl.Series:
    return pl.Series(np.arange(len(distinct)))


def _codes(names: pl.Series) -> _Ints:
    codes = names.to_physical().to_numpy()
    # Those of a column with nulls are floats.
    return (np.where(np.isnan(codes), -1, codes) if names.null_count() else codes).astype(np.int64)


def nearest(start: int | None, parent_of: Mapping[int, int | None], known: Collection[int]) -> int | None:
    """The first of `start`, its parent, the parent's parent and so on that is known; None if none is."""
    while start is not None and start not in known:
        start = parent_of.get(start)
    return start


class CallAction(Enum):
    """Effect of a call."""

    LAUNCH_KERNEL = "launch-kernel"
    """It launches a kernel, which runs or, during stream capture, becomes a node of a graph."""
    LAUNCH_GRAPH = "launch-graph"
    """It launches a graph."""
    BEGIN_CAPTURE = "begin-capture"
    """It begins the capture of a stream into a graph."""
    END_CAPTURE = "end-capture"
    """It ends the capture."""
    MAKE_GRAPH = "make-graph"
    """It instantiates a captured graph for launching."""
    COPY = "copy"
    """It copies memory."""
    FILL = "fill"
    """It fills memory."""
    MAKE_STREAM_WAIT = "make-stream-wait"
    """It makes a stream wait for an event; the host does not wait."""
    WAIT_FOR_EVENT = "wait-for-event"
    """The host waits for an event of a device."""
    WAIT_FOR_STREAM = "wait-for-stream"
    """The host waits for a stream, queue, fence or command list."""
    WAIT = "wait"
    """The host waits for a device or part of it."""
    QUERY = "query"
    """It polls an event or a stream without waiting."""
    MANAGE_MEMORY = "manage-memory"
    """It allocates, registers or releases memory of host or device."""
    ALLOCATE_ON_DEVICE = "allocate-on-device"
    """It allocates memory on a device."""
    RELEASE_ON_DEVICE = "release-on-device"
    """It releases memory on a device."""
    ASYNCHRONOUS = "asynchronous"
    """Its name says that it does not wait."""


PATTERNS: dict[CallAction, str] = {
    CallAction.LAUNCH_KERNEL: "Launch",
    CallAction.LAUNCH_GRAPH: "GraphLaunch",
    CallAction.BEGIN_CAPTURE: "StreamBeginCapture",
    CallAction.END_CAPTURE: "StreamEndCapture",
    CallAction.MAKE_GRAPH: "GraphInstantiate",
    CallAction.COPY: "(?i)memcpy",
    CallAction.FILL: "(?i)memset",
    CallAction.MAKE_STREAM_WAIT: "(?i)StreamWaitEvent",
    CallAction.WAIT_FOR_EVENT: "(?i)event(host)?_?synchronize|synchronizeevent|eventwait$",
    CallAction.WAIT_FOR_STREAM: (
        "(?i)(stream|queue|fence|commandlist)(host)?_?synchronize|synchronizestream|(queue|stream)_?finish"
    ),
    CallAction.WAIT: "(?i)synchronize",
    CallAction.QUERY: "(?i)(event|stream)_?query|queryevent",
    CallAction.MANAGE_MEMORY: (
        r"(?i)^(cuda|hip|cu|mtia|ze|sycl|ur)?(mem)?(host|array|3d)?(malloc|alloc|free|release$)"
        r"|^(cuda|hip)(host|ipc)?(un)?register"
    ),
    CallAction.ALLOCATE_ON_DEVICE: (
        r"^(cuda|hip)(Ext)?Malloc(Async|Managed|Pitch|3D|FromPoolAsync|WithFlags)?(_|$)"
        r"|^(cuMem(Alloc|Create|Map)|hipMem(Create|Map))|^zeMemAlloc(Device|Shared)|^urUSM(Device|Shared)Alloc"
    ),
    CallAction.RELEASE_ON_DEVICE: (
        r"^(cuda|hip)Free(Async)?(_|$)|^(cuMem(Free|Unmap|Release)|hipMem(Unmap|Release))|^zeMemFree|^urUSMFree"
    ),
    CallAction.ASYNCHRONOUS: "(?i)async",
}
"""A regular expression for each, searched for in a call's name."""

_EXCEPT = {
    CallAction.LAUNCH_KERNEL: "Graph|HostFunc",
    CallAction.COPY: "Graph",
    CallAction.FILL: "Graph",
    CallAction.ALLOCATE_ON_DEVICE: "Host",
    CallAction.RELEASE_ON_DEVICE: "Host",
}
"""Excluding patterns: graph nodes are created, not run; pinned memory belongs to the host."""


def call_does(name: pl.Expr, action: CallAction) -> pl.Expr:
    """Return whether a call has an effect, by its name. Null stays null."""
    found = name.str.contains(PATTERNS[action])
    return found & ~name.str.contains(_EXCEPT[action]) if action in _EXCEPT else found
