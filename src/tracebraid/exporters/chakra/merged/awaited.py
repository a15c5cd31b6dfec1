"""What communication each moment of a rank waited for: over all that it waited for, and along the latest of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.exporters.chakra.nodes.tasks import NONE
from tracebraid.graph.joining.order import order_of
from tracebraid.graph.joining.rows import edge_rows
from tracebraid.model.graph.codes import Point
from tracebraid.model.graph.rank_graph import RankGraph, moment

__all__ = ["Awaited", "awaited"]

_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Awaited:
    """Communication that moments waited for, by its number: its place among the activities that communicate.

    Args:
        last: of each moment, the communication that it waited for last, along the chain of what each moment waited for
            the longest.
        by_lane: of each lane that communicates (a stream, a thread), of each moment, the latest communication that was
            over before it, as what it waited for says.
    """

    last: _Ints
    by_lane: tuple[_Ints, ...]


def awaited(graph: RankGraph, activity: _Ints) -> Awaited:
    """The communication that each moment of a rank waited for.

    Args:
        graph: of one rank.
        activity: the activities that communicate, each once.
    """
    rows = edge_rows([graph.edges], [0], graph.times_ns)
    order = order_of(graph.times_ns, rows.first, rows.before).moments
    ends = moment(activity, Point.END)
    number = np.arange(len(activity))
    own = np.full(len(graph.times_ns), NONE, dtype=np.int64)
    own[ends] = number
    deps = (rows.first, rows.before)
    last = _last(order, deps, rows.work_ns, graph.times_ns, own)
    lane = graph.activities.get_column("lane").fill_null(NONE).to_numpy()[activity]
    found = []
    for each in np.unique(lane).tolist():
        on_lane = number[lane == each]
        by_end = on_lane[np.argsort(graph.times_ns[ends[on_lane]], kind="stable")]
        position = np.full(len(graph.times_ns), NONE, dtype=np.int64)
        position[ends[by_end]] = np.arange(len(by_end))
        latest = _latest(order, deps, position)
        found.append(np.where(latest == NONE, NONE, by_end[latest]))
    return Awaited(last, tuple(found))


@compiled
def _last(order: _Ids, deps: tuple[_Ints, _Ids], work_ns: _Ints, times_ns: _Ints, own: _Ints) -> _Ints:
    first, before = deps
    found: _Ints = own.copy()
    for row in order:
        if own[row] >= 0:
            continue
        latest = np.int64(-1) << 62
        for edge in range(first[row], first[row + 1]):
            ready = times_ns[before[edge]] + work_ns[edge]
            if ready > latest:
                latest = ready
                found[row] = found[before[edge]]
    return found


@compiled
def _latest(order: _Ids, deps: tuple[_Ints, _Ids], position: _Ints) -> _Ints:
    first, before = deps
    found: _Ints = position.copy()
    for row in order:
        for edge in range(first[row], first[row + 1]):
            if found[before[edge]] > found[row]:
                found[row] = found[before[edge]]
    return found
