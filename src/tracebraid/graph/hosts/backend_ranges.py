"""Communication of host backends (gloo, MPI), and the op that issued it."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.time.breakdown import HOST
from tracebraid.analysis.time.collective_events import collective_events, host_ranges
from tracebraid.model.category import Role
from tracebraid.model.collectives import type_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import mapped_by_name

_Ints = NDArray[np.int64]

_NO_EVENT = -1
_ASKS = r"^c10d::"
"""Ops that issue communication of a backend."""
_COLUMNS = ("event_id", "lane", "ts_ns", "end_ns", "type")


def backend_ranges(linked: LinkedTrace) -> pl.DataFrame:
    """The ranges in which the host itself communicates, in the order of starts: event_id, lane, ts_ns, end_ns, type."""
    return linked.derived(_backend_ranges)


def issuing_ops(linked: LinkedTrace) -> pl.DataFrame:
    """Return the issuing op of each of `backend_ranges`: event_id, lane, ts_ns, end_ns, type; null: unknown.

    Ops and ranges of one type are paired in their order: both are queues. Where there are fewer of one, from the
    last on: communication issued before the window may still run in it.
    """
    return linked.derived(_issuing_ops)


def _backend_ranges(linked: LinkedTrace) -> pl.DataFrame:
    found = pl.concat([collective_events(linked), host_ranges(linked)])
    ranges = found.filter((pl.col("device") == HOST) & ~pl.col("asks"))
    ranges = ranges.select(
        "event_id",
        "lane",
        "ts_ns",
        "end_ns",
        mapped_by_name(ranges.get_column("kernel"), type_of).alias("type"),
    )
    return ranges.unique("event_id").sort("ts_ns", "event_id")


def _issuing_ops(linked: LinkedTrace) -> pl.DataFrame:
    ranges = backend_ranges(linked)
    ops = linked.timeline.of_role(Role.OP).with_columns(as_text("name"))
    ops = ops.filter(pl.col("name").str.contains(_ASKS)) if ranges.height else ops.clear()
    ops = ops.select(
        "event_id",
        "lane",
        "ts_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        mapped_by_name(ops.get_column("name"), type_of).alias("type"),
    ).sort("ts_ns", "event_id")
    asked = pl.Series("event_id", np.full(ranges.height, _NO_EVENT, dtype=np.int64))
    for kind in ranges.get_column("type").drop_nulls().unique().to_list():
        rows = np.flatnonzero((ranges.get_column("type") == kind).fill_null(False).to_numpy())
        of_type = ops.filter(pl.col("type") == kind)
        asked[rows] = _in_order(of_type, ranges.get_column("ts_ns").to_numpy()[rows])
    known = pl.DataFrame([asked]).with_columns(pl.col("event_id").replace(_NO_EVENT, None))
    return known.join(ops, on="event_id", how="left", maintain_order="left").select(_COLUMNS)


def _in_order(ops: pl.DataFrame, starts_ns: _Ints) -> _Ints:
    """The op of each range, given in the order of starts; -1: none."""
    events, issued_ns = ops.get_column("event_id").to_numpy(), ops.get_column("ts_ns").to_numpy()
    if len(events) == len(starts_ns) and bool((issued_ns <= starts_ns).all()):
        return events
    found = np.full(len(starts_ns), _NO_EVENT, dtype=np.int64)
    row = len(events) - 1
    for index in range(len(starts_ns) - 1, -1, -1):
        row = min(row, int(np.searchsorted(issued_ns, starts_ns[index], side="right")) - 1)
        if row < 0:
            break
        found[index] = events[row]
        row -= 1
    return found
