"""The communication of a rank and what of it has to end before: all that a search for deadlocks has to keep of a rank.

Nodes between two communications only hand on what was waited for. Where a node waits for several communications of
which none waits for another, it stays as a junction; all other nodes vanish.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.dependencies import RankDependencies
from tracebraid.compiled import compiled

__all__ = ["Skeleton", "skeleton_of"]

_Ints = NDArray[np.int64]
_STEPS_BACK = 32
"""Entries that are gone back to see whether one communication waits for another: enough for the chains of streams.
Where it is not enough, a junction more is kept."""


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Communications and junctions of a rank; each waits for earlier entries only.

    Args:
        row: the row of the node that each stands for.
        first: the entries of `before` of each.
        before: the entry that it waits for.
        start_us: when it can begin at the earliest, where communication takes no time.
        level: how many of the collectives behind each other end with it, of those that wait for each other.
    """

    row: _Ints
    first: _Ints
    before: _Ints
    start_us: _Ints
    level: _Ints


def skeleton_of(
    dependencies: RankDependencies, order: _Ints, communicates: NDArray[np.int8], duration_us: _Ints
) -> Skeleton:
    """The skeleton of a rank.

    Args:
        dependencies: of the rank.
        order: rows that can run, as `run_order` gives them.
        communicates: of each row: 0 no communication, 1 a collective, 2 a send or receive.
        duration_us: of each row; that of communication counts as 0.
    """
    start_us, level = _starts(dependencies.first, dependencies.before, order, communicates, duration_us)
    most = np.diff(dependencies.first).max(initial=1)
    kept, first, before = _contracted(dependencies.first, dependencies.before, order, communicates, int(most))
    return Skeleton(kept, first, before, start_us[kept], level[kept])


@compiled
def _starts(
    first: _Ints, before: _Ints, order: _Ints, communicates: NDArray[np.int8], duration_us: _Ints
) -> tuple[_Ints, _Ints]:
    nodes = len(communicates)
    start = np.zeros(nodes, dtype=np.int64)
    level = np.zeros(nodes, dtype=np.int64)
    for at in range(len(order)):
        row = order[at]
        begins, deepest = 0, 0
        for entry in range(first[row], first[row + 1]):
            other = before[entry]
            ends = start[other] + (0 if communicates[other] else duration_us[other])
            begins = max(begins, ends)
            deepest = max(deepest, level[other])
        start[row] = begins
        level[row] = deepest + (1 if communicates[row] == 1 else 0)
    return start, level


@compiled
def _contracted(
    first: _Ints, before: _Ints, order: _Ints, communicates: NDArray[np.int8], width: int
) -> tuple[_Ints, _Ints, _Ints]:
    nodes = len(communicates)
    stands_for = np.full(nodes, -1, dtype=np.int64)
    kept = np.empty(len(order), dtype=np.int64)
    kept_first = np.zeros(len(order) + 1, dtype=np.int64)
    kept_before = np.empty(len(before), dtype=np.int64)
    found = np.empty(width, dtype=np.int64)
    walked = np.empty(_STEPS_BACK, dtype=np.int64)
    count, edges = 0, 0
    for at in range(len(order)):
        row = order[at]
        many = 0
        for entry in range(first[row], first[row + 1]):
            if stands_for[before[entry]] >= 0:
                found[many] = stands_for[before[entry]]
                many += 1
        if many > 1:
            found[:many].sort()
            last = found[many - 1]
            unique = 0
            for entry in range(many - 1):
                # Is it waited for by the last of them already? Gone back along what that one waits for.
                needed = found[entry] != found[entry + 1]
                walked[0], begin, end = last, 0, 1
                while begin < end and needed:
                    for edge in range(kept_first[walked[begin]], kept_first[walked[begin] + 1]):
                        if kept_before[edge] == found[entry]:
                            needed = False
                        elif kept_before[edge] > found[entry] and end < _STEPS_BACK:
                            walked[end] = kept_before[edge]
                            end += 1
                    begin += 1
                if needed:
                    found[unique] = found[entry]
                    unique += 1
            found[unique] = last
            many = unique + 1
        if communicates[row] == 0 and many < 2:
            stands_for[row] = found[0] if many else -1
            continue
        stands_for[row] = count
        kept[count] = row
        kept_before[edges : edges + many] = found[:many]
        edges += many
        count += 1
        kept_first[count] = edges
    return kept[:count], kept_first[: count + 1], kept_before[:edges]
