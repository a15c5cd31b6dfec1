"""When communication is issued: from where on the lane, and behind which other communication."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.pieces import NONE
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
        lead_ns: how much later it started than what it waits for was over.
        before: the entries that it waits for.
    """

    at_ns: _Ints
    moment: _Ints
    lead_ns: _Ints
    before: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class _Ready:
    """When each communication could start, by other communication and by all else.

    Args:
        other_ns: when all else let it start.
        other: the moment that did.
        is_behind: whether other communication is known to have let it start, later than all else.
    """

    other_ns: _Ints
    other: _Ints
    is_behind: _Flags


def issued(graph: RankGraph, activity: _Ints) -> Issued:
    """When each communication of a rank is issued.

    One that started behind another one, such as the next on its stream, starts when that is over and the lane has come
    to where it was launched or its inputs were there: with a faster network it starts earlier. Any other starts
    when the lane has come to its start. It waits for the communication that was over when it started; what ran at the
    same time is issued before it: for whatever that waits, it waits, too. So all ranks issue in one order.

    Args:
        graph: of one rank.
        activity: of each row, in the order in which they are issued: an activity may have several.
    """
    own = moment(activity, Point.START)
    start_ns, end_ns = graph.times_ns[own], graph.times_ns[moment(activity, Point.END)]
    before, over_ns = _behind(_rising(start_ns), end_ns)
    ready = _ready(graph, activity)
    lead_ns = start_ns - np.maximum(over_ns, ready.other_ns)
    is_behind = ready.is_behind & (lead_ns >= 0) & (lead_ns <= _LONGEST_LEAD_NS)
    at_ns = _rising(np.where(is_behind, ready.other_ns, start_ns))
    lead_ns = np.where(is_behind, np.maximum(start_ns - np.maximum(over_ns, at_ns), 0), 0)
    waits = np.where(is_behind & (ready.other != NONE), ready.other, own)
    return Issued(at_ns, waits, lead_ns, before)


def _rising(times_ns: _Ints) -> _Ints:
    """None before the one ahead of it."""
    latest: _Ints = np.maximum.accumulate(times_ns) if len(times_ns) else times_ns
    return latest


def _behind(start_ns: _Ints, end_ns: _Ints) -> tuple[tuple[tuple[int, ...], ...], _Ints]:
    """What of the communication ahead was over when each started, and when the last of it was."""
    open_ones: list[int] = []
    before: list[tuple[int, ...]] = []
    over_ns = np.full(len(start_ns), _NEVER, dtype=np.int64)
    for number, start in enumerate(start_ns.tolist()):
        over = tuple(other for other in open_ones if end_ns[other] <= start)
        implied = {other for each in over for other in before[each]}
        # One that is over stays, until one that waits for it is over: those that run meanwhile wait for it as well.
        open_ones = [other for other in open_ones if other not in implied]
        before.append(tuple(other for other in over if other not in implied))
        if over:
            over_ns[number] = end_ns[list(over)].max()
        open_ones.append(number)
    return tuple(before), over_ns


def _ready(graph: RankGraph, activity: _Ints) -> _Ready:
    events, event = np.unique(activity, return_inverse=True)
    starts = moment(events, Point.START)
    place = np.full(len(graph.times_ns), NONE, dtype=np.int64)
    place[starts] = np.arange(len(events))
    communicates = np.zeros(len(graph.times_ns), dtype=np.bool_)
    communicates[moment(events, Point.END)] = True
    edges = graph.edges[place[graph.edges.after] != NONE]
    number, ready_ns = place[edges.after], graph.times_ns[edges.before] + edges.work_ns
    behind = communicates[edges.before]
    communication_ns, _ = _latest(number[behind], ready_ns[behind], edges.before[behind], len(events))
    other_ns, other = _latest(number[~behind], ready_ns[~behind], edges.before[~behind], len(events))
    is_behind = (communication_ns > _NEVER) & (communication_ns >= other_ns)
    other_ns = np.minimum(other_ns, graph.times_ns[starts])
    return _Ready(other_ns[event], other[event], is_behind[event])


def _latest(number: _Ints, ready_ns: _Ints, before: _Ints, count: int) -> tuple[_Ints, _Ints]:
    """Of each number the latest time, and the moment that it is of."""
    latest_ns = np.full(count, _NEVER, dtype=np.int64)
    found = np.full(count, NONE, dtype=np.int64)
    order = np.argsort(ready_ns, kind="stable")
    # The last of equal entries stays.
    latest_ns[number[order]], found[number[order]] = ready_ns[order], before[order]
    return latest_ns, found
