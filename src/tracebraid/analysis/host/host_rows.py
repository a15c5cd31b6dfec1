"""The host events of a rank as arrays, a row for each of `host_tree`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.module_name import instance_of

__all__ = ["NO_ROW", "HostRows", "events_of_rows", "host_rows", "modules_of_rows", "names_of_rows"]

_Ints = NDArray[np.int64]

NO_ROW = -1
"""Stands for no host event."""


@dataclass(frozen=True)
class HostRows:
    """The host events, a row for each of `host_tree`.

    Args:
        event_id: the event of each row, rising.
        parent: row of the innermost event that encloses it; -1 for none.
        lane: its thread.
        start_ns: its start.
        end_ns: its end, cut at its parent's.
        depth: number of events that enclose it.
    """

    event_id: _Ints
    parent: _Ints
    lane: _Ints
    start_ns: _Ints
    end_ns: _Ints
    depth: _Ints

    def rows(self, events: _Ints) -> _Ints:
        """The rows of some events; -1 for those that are no host events with a row."""
        if not len(self.event_id):
            return np.full(len(events), NO_ROW, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.event_id, events), len(self.event_id) - 1)
        found: _Ints = np.where(self.event_id[rows] == events, rows, NO_ROW)
        return found


def host_rows(linked: LinkedTrace) -> HostRows:
    """The host events of a rank, kept with the linked trace."""
    return linked.derived(_host_rows)


def _host_rows(linked: LinkedTrace) -> HostRows:
    tree, events = linked.host_tree, linked.timeline.events
    event_id = tree.get_column("event_id").to_numpy()
    parents = tree.get_column("parent_event").fill_null(-1).to_numpy()
    start = events.get_column("ts_ns").to_numpy()[event_id]
    return HostRows(
        event_id,
        np.where(parents < 0, NO_ROW, np.searchsorted(event_id, parents)),
        events.get_column("lane").to_numpy()[event_id],
        start,
        start + tree.get_column("inclusive_ns").to_numpy(),
        tree.get_column("depth").to_numpy(),
    )


def events_of_rows(linked: LinkedTrace, rows: _Ints) -> pl.Series:
    """The events of some rows; null for -1."""
    numbers = pl.Series(rows, dtype=pl.Int64)
    events: pl.Series = linked.host_tree.get_column("event_id").gather(numbers.set(numbers < 0, None))
    return events


def names_of_rows(linked: LinkedTrace, rows: _Ints) -> pl.Series:
    """The names of the events of some rows, as categoricals; null for -1."""
    names: pl.Series = linked.timeline.events.get_column("name").gather(events_of_rows(linked, rows))
    return names


def modules_of_rows(linked: LinkedTrace, rows: _Ints) -> pl.Series:
    """The modules of which some rows are calls, as categoricals, named as in `modules` (`Linear_0`); null for -1."""
    calls = names_of_rows(linked, rows)
    if calls.null_count() == len(calls):
        return calls
    names = calls.unique().drop_nulls()
    modules = pl.DataFrame({"call": names.cast(pl.String)}).select(instance_of(pl.col("call"))).to_series()
    named: pl.Series = calls.replace_strict(names, modules, default=None, return_dtype=calls.dtype)
    return named
