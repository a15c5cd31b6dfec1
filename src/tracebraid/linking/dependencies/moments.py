"""One total order of the starts and ends of events: what a dependency goes forward in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.nesting import TOLERANCE_NS
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["END", "START", "Moments", "moments_of"]

START, END = "start", "end"

_Ints = NDArray[np.int64]
_ON_THE_HOST = (Role.OP, Role.ANNOTATION, Role.CALL)


@dataclass(frozen=True)
class Moments:
    """The times of all events, and the position of each start and end in one order; arrays by event id.

    Args:
        start_ns: starts.
        end_ns: ends.
        start_position: position of each start in the order; -1 for events that depend on nothing, as instants.
        end_position: position of each end.
    """

    start_ns: _Ints
    end_ns: _Ints
    start_position: _Ints
    end_position: _Ints

    def times(self, events: pl.Series, moments: pl.Series) -> _Ints:
        """The time of one moment of each event."""
        return self._pick(events, moments, self.start_ns, self.end_ns)

    def positions(self, events: pl.Series, moments: pl.Series) -> _Ints:
        """The position of one moment of each event."""
        return self._pick(events, moments, self.start_position, self.end_position)

    @staticmethod
    def _pick(events: pl.Series, moments: pl.Series, starts: _Ints, ends: _Ints) -> _Ints:
        rows = events.to_numpy()
        picked: _Ints = np.where((moments == END).to_numpy(), ends[rows], starts[rows])
        return picked


def moments_of(timeline: Timeline) -> Moments:
    """Order the moments of ops, annotations, calls and device work by time.

    A device's end counts as up to `TOLERANCE_NS` earlier than it is written, though not as earlier than its start:
    by so much rounding may push it past what followed. At one time, the host comes before the device, then the
    order of the file holds; an event starts before it ends.
    """
    role = timeline.events.select(
        as_text("category").is_in(categories_of(*_ON_THE_HOST)).fill_null(False).alias("host"),
        as_text("category").is_in(categories_of(Role.DEVICE_WORK)).fill_null(False).alias("device"),
    )
    on_device = role.get_column("device").to_numpy()
    start = timeline.events.get_column("ts_ns").to_numpy()
    end = start + timeline.events.get_column("dur_ns").to_numpy()
    counted = np.flatnonzero(on_device | role.get_column("host").to_numpy())
    ended = np.where(on_device, np.maximum(start, end - TOLERANCE_NS), end)[counted]
    began = start[counted]
    rank = np.empty(len(counted), dtype=np.int64)
    rank[np.lexsort((on_device[counted], began))] = np.arange(len(counted))
    order = np.lexsort((np.concatenate([2 * rank, 2 * rank + 1]), np.concatenate([began, ended])))
    position = np.empty(2 * len(counted), dtype=np.int64)
    position[order] = np.arange(2 * len(counted))
    starts, ends = (np.full(len(start), -1, dtype=np.int64) for _ in range(2))
    starts[counted], ends[counted] = position[: len(counted)], position[len(counted) :]
    return Moments(start, end, starts, ends)
