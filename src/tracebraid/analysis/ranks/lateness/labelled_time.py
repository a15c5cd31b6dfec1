"""What did the rank do at each moment: each moment of its trace once, with what it was busy with?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.host.host_rows import names_of_rows
from tracebraid.analysis.ranks.lateness.host_labels import host_labels
from tracebraid.analysis.ranks.lateness.segment_kinds import SegmentKind
from tracebraid.analysis.time.intervals import cover_of, owned
from tracebraid.model.device_kind import COMMUNICATION, WAIT
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["LabelledTime", "labelled_time"]

_Ints = NDArray[np.int64]
_NONE = -1


@dataclass(frozen=True)
class LabelledTime:
    """The time of a rank in intervals without gaps, each with a label.

    Args:
        moments: where the intervals start, rising; the last ends the last interval.
        label: of each interval, a row of `labels`.
        event: what occurs in it, to be counted: alike for intervals of the same event.
        labels: `kind` (a number of `SegmentKind`), `name` ("" for none), `communication` (event; null for others).
    """

    moments: _Ints
    label: _Ints
    event: _Ints
    labels: pl.DataFrame


@dataclass(frozen=True)
class _Intervals:
    """Disjoint intervals in order, each of an event."""

    starts: _Ints
    ends: _Ints
    events: _Ints

    def at(self, moments: _Ints) -> _Ints:
        """The event at each moment; -1 for none."""
        if not len(self.starts):
            return np.full(len(moments), _NONE, dtype=np.int64)
        index = np.searchsorted(self.starts, moments, side="right") - 1
        inside = (index >= 0) & (moments < self.ends[np.maximum(index, 0)])
        found: _Ints = np.where(inside, self.events[np.maximum(index, 0)], _NONE)
        return found


def labelled_time(linked: LinkedTrace, annotation: str) -> LabelledTime:
    """The labelled time of a rank. On a trace without device work, the host's ops are what works.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    found = members(linked, annotation)
    work = device_events(linked)
    kernels = _work(work)
    collectives = _disjoint(found.sort("start_ns", "event_id"), "start_ns", "end_ns")
    queued = _queued(linked, work)
    host = host_labels(linked, annotation)
    changes = host.changes()
    changes = changes[kernels.at(changes) == _NONE]
    span = linked.timeline.span_ns or (0, 0)
    edges = [
        np.array(span, dtype=np.int64),
        *(
            edge
            for intervals in (kernels, collectives, queued)
            for edge in (intervals.starts, intervals.ends)
        ),
        found.get_column("start_ns").to_numpy(),
    ]
    moments = np.unique(np.concatenate([*edges, changes]))
    starts = moments[:-1]
    row = host.at(starts)
    kernel, collective = kernels.at(starts), collectives.at(starts)
    works = host.works[row] & work.is_empty()
    is_queued = queued.at(starts) != _NONE
    kind = np.select(
        [kernel != _NONE, works, collective != _NONE, is_queued],
        [SegmentKind.KERNEL, host.kind[row], SegmentKind.COMMUNICATION, SegmentKind.QUEUED],
        host.kind[row],
    ).astype(np.int64)
    event = np.select(
        [kind == SegmentKind.KERNEL, kind == SegmentKind.COMMUNICATION, kind == SegmentKind.QUEUED],
        [kernel, collective, queued.at(starts)],
        host.named_by[row],
    )
    label, labels = _labels(linked, kind, event)
    return LabelledTime(moments, label, event, labels)


def _work(work: pl.DataFrame) -> _Intervals:
    return _disjoint(
        work.filter(~pl.col("kind").is_in([COMMUNICATION, WAIT]))
        .with_columns((pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
        .sort("ts_ns", "event_id"),
        "ts_ns",
        "end_ns",
    )


def _disjoint(events: pl.DataFrame, start: str, end: str) -> _Intervals:
    """Each moment belongs to the first event that began."""
    starts = events.get_column(start).to_numpy()
    first, last = owned(starts, np.maximum(events.get_column(end).to_numpy(), starts))
    some = last > first
    return _Intervals(first[some], last[some], events.get_column("event_id").to_numpy()[some])


def _queued(linked: LinkedTrace, work: pl.DataFrame) -> _Intervals:
    """When something was launched and has not started; all of that counts as event 0."""
    call = work.get_column("call_event")
    columns = event_columns(linked.timeline, call, call_ns="ts_ns", call_dur_ns="dur_ns")
    calls = work.with_columns(*columns).filter(pl.col("call_event").is_not_null())
    launched = calls.select((pl.col("call_ns") + pl.col("call_dur_ns")).alias("ns")).to_series()
    cover = cover_of(launched.to_numpy(), calls.get_column("ts_ns").to_numpy())
    return _Intervals(cover.starts, cover.ends, np.zeros(len(cover.starts), dtype=np.int64))


def _labels(linked: LinkedTrace, kind: _Ints, event: _Ints) -> tuple[_Ints, pl.DataFrame]:
    """The label of each interval, and the distinct labels."""
    pairs, index = np.unique(np.stack([kind, event]), axis=1, return_inverse=True)
    kinds, events = pl.Series(pairs[0]), pl.Series(pairs[1])
    is_device = kinds.is_in([SegmentKind.KERNEL, SegmentKind.COMMUNICATION])
    of_events = event_columns(linked.timeline, events.set(~is_device, None), name="name")[0]
    is_host = kinds >= SegmentKind.HOST_OP
    of_host = names_of_rows(linked, events.set(~is_host, _NONE).to_numpy())
    found = pl.DataFrame(
        {
            "kind": kinds.cast(pl.Int8),
            "device_name": of_events.cast(pl.String),
            "host_name": of_host.cast(pl.String),
            "communication": events.set(kinds != SegmentKind.COMMUNICATION, None),
        }
    ).select("kind", pl.coalesce("device_name", "host_name", pl.lit("")).alias("name"), "communication")
    labels = found.unique(maintain_order=True).with_row_index("label")
    columns = ["kind", "name", "communication"]
    numbers = found.join(labels, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return numbers.get_column("label").cast(pl.Int64).to_numpy()[index.reshape(-1)], labels.drop("label")
