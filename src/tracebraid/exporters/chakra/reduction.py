"""Which dependencies say nothing that others do not: the transitive reduction of a graph in topological order."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled

__all__ = ["Reduction", "reduced"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_CLOCK_ENTRIES = 1 << 24
"""Of the clocks that are held at once: 64 MiB of 32-bit rows. Wider graphs take several passes."""
_MOST_PASSES = 64
"""Over all nodes. 64 passes are 5,000 chains at once in a graph of 200,000 nodes; threads and streams of real ranks
are some ten."""


@dataclass(frozen=True, eq=False)
class Reduction:
    """What remains of the dependencies.

    Args:
        before: row of each dependency that remains, by the row that waits, then by itself.
        after: the row that waits.
        implied: dependencies that others imply, which were left out; those that were there twice among them.
        untested: dependencies that remain without having been tested, for the graph is too wide: they do no harm.
    """

    before: _Ints
    after: _Ints
    implied: int
    untested: int


def reduced(before: _Ints, after: _Ints, lane: _Ints) -> Reduction:
    """The dependencies without those that others imply: of a graph without cycles, there is exactly one such set.

    A chain is a path of dependencies. For each node and chain, the latest node of the chain that it waits for, over
    any others, is known from those that it depends on: a vector clock. A dependency is implied where another one of
    the same node has waited for it or for a later node of its chain. Chains that are not tested at the same time
    share an entry of the clocks.

    Args:
        before: the row that is waited for, of each dependency, in any order; lower than `after`.
        after: the row that waits.
        lane: of each row, the thread or stream: chains are best along these; any numbers do.

    Raises:
        MissingLibraryError: numba is not installed.
    """
    order = np.lexsort((-before, after))
    before, after = before[order], after[order]
    new = np.ones(len(before), dtype=np.bool_)
    new[1:] = (before[1:] != before[:-1]) | (after[1:] != after[:-1])
    before, after = before[new], after[new]
    first = np.zeros(len(lane) + 1, dtype=np.int64)
    np.cumsum(np.bincount(after, minlength=len(lane)), out=first[1:])
    # The latest dependency of a node is never implied: what implied it would lie behind it.
    tested = np.ones(len(before), dtype=np.bool_)
    tested[first[:-1][first[:-1] < first[1:]]] = False
    chain: _Ints = _chains(first, before, lane)
    entry, entries = _clock_entries(chain, before[tested], after[tested])
    at_once = max(1, _CLOCK_ENTRIES // max(1, len(lane)))
    implied = np.zeros(len(before), dtype=np.bool_)
    for low in range(0, min(entries, _MOST_PASSES * at_once), at_once):
        _mark_implied((first, before), tested, entry - low, min(at_once, entries - low), implied)
    untested = int(np.sum(entry[before[tested]] >= _MOST_PASSES * at_once))
    back = np.flatnonzero(~implied)
    back = back[np.lexsort((before[back], after[back]))]
    return Reduction(before[back], after[back], len(new) - len(back), untested)


@compiled
def _chains(first: _Ints, before: _Ints, lane: _Ints) -> _Ints:
    """The chain of each row: that of a dependency which ends one, on the same lane if possible; else a new one."""
    chain = np.empty(len(lane), dtype=np.int64)
    is_end = np.ones(len(lane), dtype=np.bool_)
    chains = 0
    for row in range(len(lane)):
        found = -1
        # By descending row: the earliest is taken, for the latest is the call that a thread goes on from.
        for edge in range(first[row], first[row + 1]):
            other = before[edge]
            if is_end[other] and (found < 0 or lane[found] != lane[row] or lane[other] == lane[row]):
                found = other
        if found >= 0:
            is_end[found] = False
            chain[row] = chain[found]
        else:
            chain[row] = chains
            chains += 1
    return chain


def _clock_entries(chain: _Ints, before: _Ints, after: _Ints) -> tuple[_Ints, int]:
    """The clocks' entry of each row that a dependency under test waits for, else -1; and how many entries there are.

    An entry passes to another chain when no node of the former is tested any more: rows of the next are higher.
    """
    entry = np.full(len(chain), -1, dtype=np.int64)
    if not len(before):
        return entry, 0
    tested = np.unique(chain[before])
    begins = np.full(len(tested), len(chain), dtype=np.int64)
    ends = np.zeros(len(tested), dtype=np.int64)
    number = np.searchsorted(tested, chain[before])
    np.minimum.at(begins, number, before)
    np.maximum.at(ends, number, after)
    order = np.argsort(begins, kind="stable")
    held: list[tuple[int, int]] = []
    given = np.empty(len(tested), dtype=np.int64)
    entries = 0
    for at, begin, end in zip(order.tolist(), begins[order].tolist(), ends[order].tolist(), strict=True):
        # A node that is tested last may begin the next chain: its own row is not yet in its clock then.
        if held and held[0][0] <= begin:
            own = heappop(held)[1]
        else:
            own, entries = entries, entries + 1
        given[at] = own
        heappush(held, (end, own))
    entry[before] = given[number]
    return entry, entries


@compiled
def _mark_implied(
    deps: tuple[_Ints, _Ints], tested: _Flags, entry: _Ints, entries: int, implied: _Flags
) -> None:
    """Mark the dependencies under test, on the chains of these entries, that are implied.

    A clock's entry is the latest row under test on the chain that holds the entry, and -1 if there is none.
    """
    first, before = deps
    nodes = len(first) - 1
    clocks = np.full((nodes, entries), -1, dtype=np.int32)
    for row in range(nodes):
        clock = clocks[row]
        for edge in range(first[row], first[row + 1]):
            other = before[edge]
            own = entry[other]
            is_held = 0 <= own < entries
            if is_held and tested[edge] and clock[own] >= other:
                implied[edge] = True
                continue
            for at in range(entries):
                if clocks[other, at] > clock[at]:
                    clock[at] = clocks[other, at]
            if is_held and other > clock[own]:
                clock[own] = other
