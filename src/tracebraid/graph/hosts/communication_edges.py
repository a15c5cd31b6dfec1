"""Communication on the host: an op asks, a thread of the backend communicates, a thread waits for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.backend_ranges import asking_ops, backend_ranges
from tracebraid.graph.hosts.thread_chains import ThreadChains
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["SHORTEST_WAIT_NS", "communication_edges"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

SHORTEST_WAIT_NS = 10_000
"""A thread that shows nothing for less than this may as well have computed, where nothing names its wait."""

_WAITS = r"(?i)\bwait\b|barrier|synchronize"
"""Names of functions and ops in which a thread waits for communication."""
_MAY_WAIT = (ActivityKind.THREAD.value, ActivityKind.ANNOTATION.value, ActivityKind.PYTHON.value)
"""Kinds of activities that may wait in code that nothing records."""


@dataclass(frozen=True, eq=False)
class _Asked:
    """Ranges of backends whose op is known and on another thread, in the order in which they were asked for.

    Args:
        op: the activity of the op.
        range: that of the range.
        thread: the thread of the op.
        end_ns: when the range ended.
    """

    op: _Ints
    range: _Ints
    thread: _Ints
    end_ns: _Ints


def communication_edges(
    linked: LinkedTrace, activities: RankActivities, chains: ThreadChains, times_ns: _Ints
) -> EdgeList:
    """From the op that asks to the start of the backend's range, and from its end to the thread that waited for it.

    Args:
        linked: one rank.
        activities: its activities.
        chains: the moments of its threads.
        times_ns: of each moment.
    """
    asked = _asked(linked, activities, chains, times_ns)
    return EdgeList.joined([_issues(asked, chains, times_ns), _waits(asked, activities, chains)])


def _asked(linked: LinkedTrace, activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> _Asked:
    ranges, ops = (
        activities.of_event[frame.get_column("event_id").fill_null(-1).to_numpy()]
        if len(activities.of_event)
        else np.empty(0, dtype=np.int64)
        for frame in (backend_ranges(linked), asking_ops(linked))
    )
    known = asking_ops(linked).get_column("event_id").is_not_null().to_numpy()[: len(ops)]
    known &= (ranges >= 0) & (ops >= 0)
    ranges, ops = ranges[known], ops[known]
    thread, other = (chains.thread[chains.position[moment(part, Point.START)]] for part in (ops, ranges))
    apart = np.flatnonzero(thread != other)
    order = apart[np.argsort(times_ns[moment(ops[apart], Point.START)], kind="stable")]
    end_ns = times_ns[moment(ranges[order], Point.END)]
    return _Asked(ops[order], ranges[order], thread[order], end_ns)


def _issues(asked: _Asked, chains: ThreadChains, times_ns: _Ints) -> EdgeList:
    """From the last moment of the op, before the range begins, to that; inside the op the time between is its work."""
    starts = moment(asked.range, Point.START)
    last = chains.last_until(asked.thread, times_ns[starts])
    position = np.minimum(np.maximum(last, 0), chains.position[moment(asked.op, Point.END)])
    before = chains.moments[position]
    inside = position < chains.position[moment(asked.op, Point.END)]
    possible = last >= chains.position[moment(asked.op, Point.START)]
    work = np.where(inside, times_ns[starts] - times_ns[before], 0)
    return EdgeList.of(before, starts, EdgeKind.THREAD, asked.op, work)[possible]


def _waits(asked: _Asked, activities: RankActivities, chains: ThreadChains) -> EdgeList:
    """From the ends of ranges to the moment at which the thread that asked for them resumes.

    It waited for a range that ended while the thread showed nothing, if nothing that it asked for before still ran
    then, and: a function or op in which threads wait is open meanwhile; or no op is, and the range took up most of
    the silence. Then it has waited for all that it asked for before, too.
    """
    position = chains.last_until(asked.thread, asked.end_ns - 1) + 1
    inside = (position > 0) & (position < chains.first[asked.thread + 1])
    position = np.where(inside, position, 0)
    resumed_ns, silent_ns = chains.times_ns[position], chains.times_ns[np.maximum(position - 1, 0)]
    named, unnamed = _may_wait(activities, chains.owner[position])
    mostly = 2 * (asked.end_ns - silent_ns) >= resumed_ns - silent_ns
    long = resumed_ns - silent_ns >= SHORTEST_WAIT_NS
    behind_its_op = position > chains.position[moment(asked.op, Point.END)]
    waited = inside & behind_its_op & (named | (unnamed & mostly & long))
    range_of_edge, position_of_edge = _with_earlier(asked, waited, position, resumed_ns)
    before = moment(asked.range[range_of_edge], Point.END)
    after = chains.moments[position_of_edge]
    return EdgeList.of(before, after, EdgeKind.COMMUNICATION_WAIT, asked.range[range_of_edge])


def _may_wait(activities: RankActivities, owner: _Ints) -> tuple[_Flags, _Flags]:
    """Whether the name of an activity says that it waits, and whether it may wait without saying so."""
    rows = activities.table[owner].select(as_text("name", "kind"))
    named = rows.select(pl.col("name").str.contains(_WAITS).fill_null(False)).to_series().to_numpy()
    unnamed = rows.select(pl.col("kind").is_in(_MAY_WAIT).fill_null(False)).to_series().to_numpy()
    return named, unnamed


def _with_earlier(asked: _Asked, waited: _Flags, position: _Ints, resumed_ns: _Ints) -> tuple[_Ints, _Ints]:
    """The waits, and for each those ranges that the thread asked for since its wait before."""
    ranges, positions = [], []
    for thread in np.unique(asked.thread).tolist():
        own = np.flatnonzero(asked.thread == thread)
        latest_ns = np.maximum.accumulate(asked.end_ns[own])
        first = 0
        for index in np.flatnonzero(waited[own] & (latest_ns <= resumed_ns[own])).tolist():
            members = own[first : index + 1]
            ranges.append(members)
            positions.append(np.full(len(members), position[own[index]]))
            first = index + 1
    nothing = np.empty(0, dtype=np.int64)
    return np.concatenate([nothing, *ranges]), np.concatenate([nothing, *positions])
