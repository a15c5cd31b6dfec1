"""When communication is issued: from where on the lane, in which order, and how long it takes there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.tasks import NONE
from tracebraid.model.graph.codes import Point
from tracebraid.model.graph.rank_graph import RankGraph, moment

__all__ = ["Issued", "issued"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_LONGEST_LEAD_NS = 100_000
"""Between the end of communication and the start of the next one that waited for it: above this, the graph calls it no
latency (`Residual.UNEXPLAINED`)."""

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class Issued:
    """Communication, in the order in which it is issued; each array has an entry for each row of it.

    Args:
        at_ns: the time on the lane at which it can start; rising.
        moment: the moment whose waits explain that time.
        duration_ns: of its transfer what lies behind the end of all communication before it, and `lead_ns`.
        covered_ns: the rest of its transfer: it ran at the same time as communication before it.
        lead_ns: how much later it started than what it waits for was over: the latency of a stream.
        block: rising: each waits for all of the block before its own; those of an event are one.
    """

    at_ns: _Ints
    moment: _Ints
    duration_ns: _Ints
    covered_ns: _Ints
    lead_ns: _Ints
    block: _Ints


@dataclass(frozen=True, eq=False)
class _Ready:
    """When each communication could start, by other communication and by all else.

    Args:
        other_ns: when all else let it start.
        other: the moment that did.
        behind_ns: the end of the communication that is known to have let it start, later than all else; or never.
    """

    other_ns: _Ints
    other: _Ints
    behind_ns: _Ints


def issued(graph: RankGraph, activity: _Ints, transfer_ns: _Ints) -> Issued:
    """When each communication of a rank is issued, and how long it takes on a lane of its own.

    One that started behind another one, such as the next on its stream, is issued when the lane has come to where it
    was launched, or its inputs were there: with a faster network it starts earlier. Any other is issued when the lane
    has come to its start. Each starts when the one before it is over, so that all ranks do all in one order.

    Args:
        graph: of one rank.
        activity: of each row, in the order in which they are issued: an activity may have several.
        transfer_ns: of each row.
    """
    own = moment(activity, Point.START)
    start_ns, end_ns = graph.times_ns[own], graph.times_ns[moment(activity, Point.END)]
    block = np.cumsum(np.r_[False, activity[1:] != activity[:-1]][: len(activity)])
    ready = _ready(graph, activity)
    behind_lead_ns = start_ns - np.maximum(ready.behind_ns, ready.other_ns)
    is_behind = (ready.behind_ns > _NEVER) & (behind_lead_ns >= 0) & (behind_lead_ns <= _LONGEST_LEAD_NS)
    at_ns = _rising(np.where(is_behind, ready.other_ns, start_ns))
    over_ns = _over_before(end_ns, block)
    lead_ns = np.where(is_behind, np.maximum(start_ns - np.maximum(over_ns, at_ns), 0), 0)
    own_ns = np.maximum(end_ns - np.maximum(end_ns - transfer_ns, over_ns), 0)
    waits = np.where(is_behind & (ready.other != NONE), ready.other, own)
    return Issued(at_ns, waits, own_ns + lead_ns, transfer_ns - own_ns, lead_ns, block)


def _rising(times_ns: _Ints) -> _Ints:
    """None before the one ahead of it."""
    latest: _Ints = np.maximum.accumulate(times_ns) if len(times_ns) else times_ns
    return latest


def _over_before(end_ns: _Ints, block: _Ints) -> _Ints:
    """Of each when all in the blocks before its own were over."""
    latest = np.r_[_NEVER, _rising(end_ns)]
    before: _Ints = latest[np.searchsorted(block, block, side="left")]
    return before


def _ready(graph: RankGraph, activity: _Ints) -> _Ready:
    events, event = np.unique(activity, return_inverse=True)
    starts = moment(events, Point.START)
    position = np.full(len(graph.times_ns), NONE, dtype=np.int64)
    position[starts] = np.arange(len(events))
    communicates = np.zeros(len(graph.times_ns), dtype=np.bool_)
    communicates[moment(events, Point.END)] = True
    edges = graph.edges[position[graph.edges.after] != NONE]
    number, ready_ns = position[edges.after], graph.times_ns[edges.before] + edges.work_ns
    behind = communicates[edges.before]
    ready_behind_ns, last = _latest(number[behind], ready_ns[behind], edges.before[behind], len(events))
    other_ns, other = _latest(number[~behind], ready_ns[~behind], edges.before[~behind], len(events))
    is_behind = (last != NONE) & (ready_behind_ns >= other_ns)
    behind_ns = np.where(is_behind, graph.times_ns[last], _NEVER)
    other_ns = np.minimum(other_ns, graph.times_ns[starts])
    return _Ready(other_ns[event], other[event], behind_ns[event])


def _latest(number: _Ints, ready_ns: _Ints, before: _Ints, count: int) -> tuple[_Ints, _Ints]:
    """Of each number the latest time, and the moment that it is of."""
    latest_ns = np.full(count, _NEVER, dtype=np.int64)
    found = np.full(count, NONE, dtype=np.int64)
    order = np.argsort(ready_ns, kind="stable")
    # The last of equal entries stays.
    latest_ns[number[order]], found[number[order]] = ready_ns[order], before[order]
    return latest_ns, found
