"""A rank's activity at each moment, summed over the segments before its collectives."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.device import device_events, event_columns
from tracebraid.analysis.host.host_rows import (
    NO_ROW,
    ThreadTimeline,
    by_rules,
    host_rows,
    kinds,
    names_of_rows,
    nearest_or_none,
    surroundings,
    thread_timelines,
)
from tracebraid.analysis.time.breakdown import cover_of, owned
from tracebraid.analysis.time.idle.idle_parts import Activity, activity_rules, host_context
from tracebraid.model.collectives import BETWEEN_TWO
from tracebraid.model.device_peaks import COMMUNICATION, WAIT
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rows import distinct_rows


class SegmentKind(IntEnum):
    """Activity of a rank at a moment, the first that applies."""

    KERNEL = 0
    """A kernel, copy or fill runs on its device."""
    COMMUNICATION = 1
    """A collective runs, and nothing else that works."""
    QUEUED = 2
    """Work was launched and has not started, though its device is free."""
    HOST_OP = 3
    """The host is in an op; the innermost counts."""
    CALL = 4
    """The host is in a call of the runtime, outside ops."""
    DATA = 5
    """The host waits for its data loader."""
    PYTHON = 6
    """The host is in a Python function, outside ops."""
    NO_EVENT = 7
    """The host is in nothing but annotations, or in nothing."""


_Ints = NDArray[np.int64]

_MOST_THREADS = 4
"""Maximum threads whose activity is examined, those with most recorded time: the main thread, that of the backward
pass, and
those of backends."""

_BUILT_IN = "<built-in"
"""Prefix of Python functions written in C, as the profiler records them."""


class HostLabels(Struct, frozen=True):
    """Host activity by a thread's innermost event: arrays over `HostRows`, and one entry more for none.

    Args:
        kind: a number of `SegmentKind`.
        named_by: the row whose name identifies the activity; -1: none.
        works: whether the thread works itself, and does not wait for another or for a collective.
        threads: timelines of the examined threads; the first that works counts.
    """

    kind: NDArray[np.int8]
    named_by: _Ints
    works: NDArray[np.bool_]
    threads: tuple[ThreadTimeline, ...]

    def changes(self) -> _Ints:
        """The moments at which a thread's innermost event changes."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(thread.moments for thread in self.threads)])

    def at(self, moments: _Ints) -> _Ints:
        """The row that counts at each moment; -1: no thread is in anything."""
        found = np.full(len(moments), NO_ROW, dtype=np.int64)
        for thread in reversed(self.threads):
            rows = thread.at(moments)
            found = np.where(self.works[rows] | ((rows >= 0) & ~self.works[found]), rows, found)
        return found


def host_labels(linked: LinkedTrace) -> HostLabels:
    """Host activity, cached with the linked trace."""
    return linked.derived(_host_labels)


def _host_labels(linked: LinkedTrace) -> HostLabels:
    activity, within = host_context(linked).activity, surroundings(linked)
    itself = np.r_[np.arange(len(activity) - 1), NO_ROW]
    data = nearest_or_none(linked, by_rules(linked, activity_rules)["is_data"])
    in_op = within.op >= 0
    built_in = by_rules(linked, lambda pairs: pairs.select(pairs["name"].str.starts_with(_BUILT_IN)))
    is_built_in = np.r_[built_in["name"] & kinds(linked)["is_frame"], False]
    calls = np.isin(activity, (Activity.CALLED, Activity.LAUNCHED, Activity.SYNCHRONIZED))
    conditions = [data >= 0, in_op, calls, activity == Activity.PYTHON]
    kind = np.select(
        conditions,
        [
            np.int8(number)
            for number in (SegmentKind.DATA, SegmentKind.HOST_OP, SegmentKind.CALL, SegmentKind.PYTHON)
        ],
        np.int8(SegmentKind.NO_EVENT),
    )
    frame = np.where(is_built_in, itself, within.frame)
    named_by = np.select(conditions, [data, within.op, itself, frame], within.annotation)
    communicating = (activity == Activity.COMMUNICATED) | (_member_rows(linked) >= 0)
    works = (kind <= SegmentKind.DATA) & ~communicating
    return HostLabels(kind.astype(np.int8), named_by.astype(np.int64), works, _threads(linked))


def _member_rows(linked: LinkedTrace) -> _Ints:
    """For each row the collective that it is or lies in."""
    host = host_rows(linked)
    rows = host.rows(members(linked).get_column("event_id").to_numpy())
    is_member = np.zeros(len(host.event_id), dtype=np.bool_)
    is_member[rows[rows >= 0]] = True
    return nearest_or_none(linked, is_member)


def _threads(linked: LinkedTrace) -> tuple[ThreadTimeline, ...]:
    host, timelines = host_rows(linked), thread_timelines(linked)
    outermost = host.parent < 0
    lanes, index = np.unique(host.lane[outermost], return_inverse=True)
    time = np.bincount(index, (host.end_ns - host.start_ns)[outermost]) if len(lanes) else np.empty(0)
    most = [int(lane) for lane in lanes[np.argsort(-time, kind="stable")]]
    return tuple(timelines[lane] for lane in most if lane in timelines)[:_MOST_THREADS]


_NO_EVENT = -1


class LabelledTime(Struct, frozen=True):
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


class _Intervals(Struct, frozen=True):
    """Disjoint intervals in order, each of an event."""

    starts: _Ints
    ends: _Ints
    events: _Ints

    def at(self, moments: _Ints) -> _Ints:
        """The event at each moment; -1 for none."""
        if not len(self.starts):
            return np.full(len(moments), _NO_EVENT, dtype=np.int64)
        index = np.searchsorted(self.starts, moments, side="right") - 1
        inside = (index >= 0) & (moments < self.ends[np.maximum(index, 0)])
        found: _Ints = np.where(inside, self.events[np.maximum(index, 0)], _NO_EVENT)
        return found


def labelled_time(linked: LinkedTrace) -> LabelledTime:
    """The labelled time of a rank. On a trace without device work, the host's ops are what works."""
    found = members(linked)
    work = device_events(linked)
    kernels = _kernels(work)
    collectives = _disjoint(found.sort("start_ns", "event_id"), "start_ns", "end_ns")
    queued = _queued(linked, work)
    host = host_labels(linked)
    changes = host.changes()
    changes = changes[kernels.at(changes) == _NO_EVENT]
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
    is_queued = queued.at(starts) != _NO_EVENT
    kind = np.select(
        [kernel != _NO_EVENT, works, collective != _NO_EVENT, is_queued],
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


def _kernels(work: pl.DataFrame) -> _Intervals:
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
    """Intervals with launched but unstarted work; it counts as event 0."""
    call = work.get_column("call_event")
    columns = event_columns(linked.timeline, call, call_ns="ts_ns", call_dur_ns="dur_ns")
    calls = work.with_columns(*columns).filter(pl.col("call_event").is_not_null())
    launched = calls.select((pl.col("call_ns") + pl.col("call_dur_ns")).alias("ns")).to_series()
    cover = cover_of(launched.to_numpy(), calls.get_column("ts_ns").to_numpy())
    return _Intervals(cover.starts, cover.ends, np.zeros(len(cover.starts), dtype=np.int64))


def _labels(linked: LinkedTrace, kind: _Ints, event: _Ints) -> tuple[_Ints, pl.DataFrame]:
    """The label of each interval, and the distinct labels."""
    pairs, index = distinct_rows(kind, event)
    kinds, events = (pl.Series(column) for column in pairs)
    is_device = kinds.is_in([SegmentKind.KERNEL, SegmentKind.COMMUNICATION])
    of_events = event_columns(linked.timeline, events.set(~is_device, None), name="name")[0]
    is_host = kinds >= SegmentKind.HOST_OP
    of_host = names_of_rows(linked, events.set(~is_host, _NO_EVENT).to_numpy())
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


MOST_NAMES = 12
"""Names that are kept of a segment at least, those with most time. What is left out is less on this rank than any of
them, so a name that another rank lacks took it at most the least that is kept."""

MOST_ROWS = 32_768
"""Names that are kept of a rank, where it has few segments: about 2 MB; a chosen value."""

_BETWEEN_TWO = [kind.value for kind in BETWEEN_TWO]
_OF_PAIRS = pl.when(pl.col("type").is_in(_BETWEEN_TWO)).then(pl.lit(" between two")).otherwise(pl.lit(""))

GROUP = pl.concat_str(pl.coalesce("process_group", "communicator", pl.lit("")), _OF_PAIRS.fill_null(""))
"""Columns that name a member's group on its rank. Ids of communicators may differ between collectives:
PyTorch's `Comms Id` is a hash with the sequence number in it. Sends and receives are apart: before a collective of all
ranks of a group, ranks do the same only since the last one of all."""

_SCHEMA = pl.Schema(
    {
        "rank": pl.Int64,
        "event_id": pl.Int64,
        "kind": pl.Int8,
        "name": pl.String,
        "merged": pl.Boolean,
        "communication": pl.Int64,
        "time_ns": pl.Int64,
        "count": pl.Int64,
    }
)

NO_SEGMENTS = _SCHEMA.to_frame()
"""Result of `rank_segments` for a rank without collectives, which cannot be late."""


def rank_segments(linked: LinkedTrace) -> pl.DataFrame:
    """The segment before each collective: from the arrival at the last collective of its group (`GROUP`) to its own.

    The first of a group begins with the trace. Rows of an `event_id` add up to the length of its segment. Columns:

    rank, event_id: the member.
    kind: a number of `SegmentKind`.
    name: of the kernel, op, call, function, annotation or collective; "" for none.
    merged: the sum of the names beyond those that are kept; `name` is "".
    communication: the event of the collective that ran; null for other kinds.
    time_ns, count: time, and how many events it is of.
    """
    found = members(linked).select("event_id", "start_ns", GROUP.alias("group"))
    if found.is_empty():
        return NO_SEGMENTS
    time = labelled_time(linked)
    groups = found.sort("start_ns", "event_id").partition_by("group", maintain_order=True)
    names = max(MOST_NAMES, MOST_ROWS // found.height)
    kept = pl.concat(_merge_least(_segments(time, group), names) for group in groups)
    return (
        kept.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
        .select(_SCHEMA.names())
        .cast(_SCHEMA)
    )


def _segments(time: LabelledTime, members_of_group: pl.DataFrame) -> pl.DataFrame:
    """Time and count of each label in each segment of a group."""
    arrivals = members_of_group.get_column("start_ns").to_numpy()
    starts, lengths = time.moments[:-1], np.diff(time.moments)
    segment = np.searchsorted(arrivals, starts, side="right")
    before = int(np.searchsorted(starts, arrivals[-1], side="left"))
    segment, label, event = segment[:before], time.label[:before], time.event[:before]
    order = np.lexsort((event, label, segment))
    segment, label, event = segment[order], label[order], event[order]
    changed = np.ones(len(order), dtype=np.bool_)
    changed[1:] = (segment[1:] != segment[:-1]) | (label[1:] != label[:-1])
    another = changed.copy()
    another[1:] |= event[1:] != event[:-1]
    first = np.flatnonzero(changed)
    if not len(first):
        return _segment_rows(time, members_of_group, first, (first, first, first))
    sums = np.add.reduceat(lengths[order], first)
    counts = np.add.reduceat(another.astype(np.int64), first)
    return _segment_rows(time, members_of_group, segment[first], (label[first], sums, counts))


def _segment_rows(
    time: LabelledTime, members_of_group: pl.DataFrame, segment: _Ints, values: tuple[_Ints, _Ints, _Ints]
) -> pl.DataFrame:
    label, sums, counts = values
    return pl.DataFrame(
        [
            members_of_group.get_column("event_id").gather(segment),
            *time.labels[label].get_columns(),
            pl.Series("time_ns", sums),
            pl.Series("count", counts),
        ]
    )


def _merge_least(segments: pl.DataFrame, names: int) -> pl.DataFrame:
    """Merge names beyond that number into one row for each kind; all collectives are kept."""
    is_kept = (pl.col("kind") == SegmentKind.COMMUNICATION) | (
        pl.col("time_ns").rank("ordinal", descending=True).over("event_id", pl.col("communication").is_null())
        <= names
    )
    marked = segments.with_columns(is_kept.alias("kept"))
    kept = marked.filter("kept").with_columns(pl.lit(value=False).alias("merged")).drop("kept")
    rest = (
        marked.filter(~pl.col("kept"))
        .group_by("event_id", "kind", maintain_order=True)
        .agg(
            pl.lit("").alias("name"),
            pl.col("communication").first(),
            pl.col("time_ns").sum(),
            pl.col("count").sum(),
            pl.lit(value=True).alias("merged"),
        )
    )
    return pl.concat([kept, rest.select(kept.columns)])
