"""What does the host do at each moment: an op, a call, its data loader, Python, or nothing that was recorded?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.host.host_rows import NO_ROW, host_rows
from tracebraid.analysis.host.name_rules import by_rules, kinds
from tracebraid.analysis.host.surroundings import nearest_or_none, surroundings
from tracebraid.analysis.host.thread_timelines import ThreadTimeline, thread_timelines
from tracebraid.analysis.ranks.lateness.segment_kinds import SegmentKind
from tracebraid.analysis.time.idle.activity_rules import activity_rules
from tracebraid.analysis.time.idle.host_context import Activity, host_context
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["HostLabels", "host_labels"]

_Ints = NDArray[np.int64]

_MOST_THREADS = 4
"""Threads that are asked what they do, those with most recorded time: the main thread, that of the backward pass, and
those of backends."""

_BUILT_IN = "<built-in"
"""How names of Python functions that are written in C begin, as the profiler records them."""


@dataclass(frozen=True)
class HostLabels:
    """What the host does, by the innermost event of a thread: arrays over `HostRows`, and one more for none.

    Args:
        kind: a number of `SegmentKind`.
        named_by: the row whose name tells what it does; -1: none.
        works: whether the thread works itself, and does not wait for another or for a collective.
        threads: the timelines of the threads that are asked, the first that works counts.
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


def host_labels(linked: LinkedTrace, annotation: str) -> HostLabels:
    """What the host does, kept with the linked trace.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_host_labels, annotation)


def _host_labels(linked: LinkedTrace, annotation: str) -> HostLabels:
    activity, within = host_context(linked).activity, surroundings(linked, annotation)
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
    communicating = (activity == Activity.COMMUNICATED) | (_members(linked, annotation) >= 0)
    works = (kind <= SegmentKind.DATA) & ~communicating
    return HostLabels(kind.astype(np.int8), named_by.astype(np.int64), works, _threads(linked))


def _members(linked: LinkedTrace, annotation: str) -> _Ints:
    """For each row the collective that it is or lies in."""
    host = host_rows(linked)
    rows = host.rows(members(linked, annotation).get_column("event_id").to_numpy())
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
