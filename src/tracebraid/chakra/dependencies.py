"""The dependencies of a rank's nodes as rows: data and control dependencies together, and an order that they allow."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.schema import ChakraRank
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]


class RankDependencies(Struct, frozen=True, eq=False):
    """Dependencies of each row, as rows.

    Args:
        first: of row `i` the entries are those from `first[i]` up to `first[i + 1]`.
        before: the row that is waited for.
        dangling_row: rows that wait for a node that is not there.
        dangling_id: the ids of those nodes.
        self_row: rows that wait for themselves; they have no other entry here.
    """

    first: _Ints
    before: _Ints
    dangling_row: _Ints
    dangling_id: _Ints
    self_row: _Ints

    def __len__(self) -> int:
        return len(self.before)


def rank_dependencies(rank: ChakraRank) -> RankDependencies:
    """The dependencies of a rank, those that make no sense apart; of nodes with the same id the first counts."""
    node_id = rank.nodes.get_column("node_id").to_numpy()
    rows, named = rank.data_deps.rows(), rank.data_deps.node_id
    if len(rank.ctrl_deps):
        rows = np.concatenate([rows, rank.ctrl_deps.rows()])
        named = np.concatenate([named, rank.ctrl_deps.node_id])
        order = np.argsort(rows, kind="stable")
        rows, named = rows[order], named[order]
    before = _rows_of(named, node_id)
    is_dangling, is_self = before < 0, before == rows
    kept = ~(is_dangling | is_self)
    first = np.zeros(len(node_id) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows[kept], minlength=len(node_id)), out=first[1:])
    return RankDependencies(
        first, before[kept], rows[is_dangling], named[is_dangling], np.unique(rows[is_self])
    )


def _rows_of(named: _Ints, node_id: _Ints) -> _Ints:
    """The first row that has each id; -1: none."""
    nodes = len(node_id)
    if not nodes:
        return np.full(len(named), -1, dtype=np.int64)
    if node_id[0] == 0 and node_id[-1] == nodes - 1 and np.array_equal(node_id, np.arange(nodes)):
        return np.where((named >= 0) & (named < nodes), named, -1)
    order = np.argsort(node_id, kind="stable")
    ascending = node_id[order]
    at = np.minimum(np.searchsorted(ascending, named), nodes - 1)
    return np.where(ascending[at] == named, order[at], -1)


def run_order(dependencies: RankDependencies) -> _Ints:
    """Return the runnable rows, each after its dependencies; rows of a cycle, and after it, are missing."""
    nodes = len(dependencies.first) - 1
    waits = np.diff(dependencies.first)
    waits[dependencies.self_row] += 1
    after = np.repeat(np.arange(nodes), np.diff(dependencies.first))
    order = np.argsort(dependencies.before, kind="stable")
    first_child = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(dependencies.before, minlength=nodes), out=first_child[1:])
    return _ordered(first_child, after[order], waits)


@native_loop
def _ordered(first_child: _Ints, child: _Ints, waits: _Ints) -> _Ints:
    order = np.flatnonzero(waits == 0).tolist()
    for row in order:
        for later in child[first_child[row] : first_child[row + 1]]:
            waits[later] -= 1
            if waits[later] == 0:
                order.append(int(later))
    return np.array(order, dtype=np.int64)


@native_loop
def depths(first: _Ints, before: _Ints, order: _Ints) -> _Ints:
    """Return how many nodes at most have to end before each row, in turn; of rows that never run 0."""
    depth = np.zeros(len(first) - 1, dtype=np.int64)
    for at in range(len(order)):
        row = order[at]
        for entry in range(first[row], first[row + 1]):
            depth[row] = max(depth[row], depth[before[entry]] + 1)
    return depth


@native_loop
def ends(first: _Ints, before: _Ints, order: _Ints, duration: _Ints) -> _Ints:
    """Compute the end of each row if all start as early as dependencies allow; 0 for rows that never run."""
    end = np.zeros(len(first) - 1, dtype=np.int64)
    for at in range(len(order)):
        row = order[at]
        for entry in range(first[row], first[row + 1]):
            end[row] = max(end[row], end[before[entry]])
        end[row] += duration[row]
    return end
