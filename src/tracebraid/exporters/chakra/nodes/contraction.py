"""The tasks that each task waits for, without the points between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.exporters.chakra.nodes.tasks import NONE, Tasks, Waits
from tracebraid.graph.joining.order import order_of

__all__ = ["Contracted", "contracted"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Contracted:
    """What tasks wait for.

    Args:
        order: the tasks, each behind all that it waits for.
        waits: of each entry the task that waits.
        before: the task that it waits for.
        dropped: waits that were left out, since they close a circle.
    """

    order: _Ints
    waits: _Ints
    before: _Ints
    dropped: int


def contracted(times_ns: _Ints, tasks: Tasks, waits: Waits) -> Contracted:
    """Of each task the tasks that it waits for.

    Of several tasks of one lane only the last counts: it waits for the others itself.

    Args:
        times_ns: of each point.
        tasks: work between points.
        waits: between points.
    """
    before, after = np.r_[tasks.start, waits.before], np.r_[tasks.end, waits.after]
    task = np.r_[np.arange(len(tasks)), np.full(len(waits), NONE, dtype=np.int64)]
    by_after = np.argsort(after, kind="stable")
    first = _first(after, len(times_ns))
    order = order_of(times_ns, first, before[by_after].astype(np.int32))
    position = order.position.astype(np.int64)
    forward = position[before] < position[after]
    kept = by_after[forward[by_after]]
    found, begin, size = _sets(
        order.moments,
        (_first(after[kept], len(times_ns)), before[kept], task[kept]),
        (tasks.lane, times_ns[tasks.end]),
    )
    count = size[tasks.start]
    entry = np.repeat(begin[tasks.start] - np.cumsum(count) + count, count) + np.arange(count.sum())
    return Contracted(
        np.lexsort((np.arange(len(tasks)), position[tasks.start])),
        np.repeat(np.arange(len(tasks)), count),
        found[entry],
        int(np.count_nonzero(~forward)),
    )


def _first(after: _Ints, count: int) -> _Ints:
    """Where the entries of each point begin, and one entry more."""
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(after, minlength=count), out=first[1:])
    return first


@compiled
def _sets(
    order: NDArray[np.int32], entries: tuple[_Ints, _Ints, _Ints], tasks: tuple[_Ints, _Ints]
) -> tuple[_Ints, _Ints, _Ints]:
    """The tasks that end each point, one behind the other, where those of each begin, and how many they are."""
    first, before, task = entries
    lane, end_ns = tasks
    begin, size = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    found = np.empty(len(order) + 1024, dtype=np.int64)
    filled = 0
    for point in order:
        begin[point] = filled
        for entry in range(first[point], first[point + 1]):
            own = task[entry]
            count = 1 if own >= 0 else size[before[entry]]
            for index in range(count):
                new = own if own >= 0 else found[begin[before[entry]] + index]
                # Those of its lane that ended before are covered by it, and it by one that ended later.
                kept, covered = begin[point], False
                for other in range(begin[point], filled):
                    old = found[other]
                    same = lane[new] >= 0 and lane[old] == lane[new]
                    if old == new or (same and end_ns[old] > end_ns[new]):
                        covered = True
                    if not same or end_ns[old] >= end_ns[new]:
                        found[kept] = old
                        kept += 1
                filled = kept
                if not covered:
                    if filled == len(found):
                        longer = np.empty(2 * filled, dtype=np.int64)
                        longer[:filled] = found
                        found = longer
                    found[filled] = new
                    filled += 1
        size[point] = filled - begin[point]
    return found, begin, size
