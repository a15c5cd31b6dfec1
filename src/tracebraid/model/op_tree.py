"""The ops of a `host_tree` as a tree, and walks over it whose cost does not grow with its depth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.nearest import nearest_rows

__all__ = ["OpTree", "op_tree"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class OpTree:
    """The host events of a tree, each with the op that encloses it.

    Args:
        event_id: event of each row, rising.
        enclosing: row of the op that encloses each row's event; its own row where there is none.
        depth: number of host events that enclose it.
    """

    event_id: _Ints
    enclosing: _Ints
    depth: _Ints

    def rows(self, events: _Ints) -> _Ints:
        """The rows of some events, all of them in the tree."""
        rows: _Ints = np.searchsorted(self.event_id, events)
        return rows

    def nearest(self, wanted: NDArray[np.bool_]) -> _Ints:
        """For each row the nearest wanted row among itself and the ops that enclose it; -1 where there is none."""
        return nearest_rows(self.enclosing, wanted)

    @cached_property
    def spans(self) -> tuple[_Ints, _Ints]:
        """(first, last) of each row: the rows in it, itself included, are those with `first` in [first, last).

        The numbers are those of a walk through the tree, parents before children. Each row's number is its offset
        among its siblings, summed over itself and all rows that enclose it: pointers are doubled as in `nearest`.
        """
        sizes = self._sizes()
        is_root = self.enclosing == np.arange(len(self.enclosing))
        enclosing = np.where(is_root, len(is_root), self.enclosing)
        order = np.argsort(enclosing, kind="stable")
        before = np.cumsum(sizes[order]) - sizes[order]
        opens = np.r_[True, np.diff(enclosing[order]) != 0] if len(order) else np.empty(0, dtype=np.bool_)
        before -= np.repeat(before[opens], np.diff(np.r_[np.flatnonzero(opens), len(order)]))
        first = np.zeros(len(order) + 1, dtype=np.int64)
        first[order] = before + ~is_root[order]
        target = np.r_[enclosing, len(order)]
        while (target < len(order)).any():
            first, target = first + first[target], target[target]
        return first[:-1], first[:-1] + sizes

    def sums(self, own: _Ints) -> _Ints:
        """For each row its own amount and those of all events that it encloses, at any depth."""
        first, last = self.spans
        by_number = np.zeros(len(own) + 1, dtype=np.int64)
        by_number[first + 1] = own
        before = np.cumsum(by_number)
        total: _Ints = before[last] - before[first]
        return total

    def outermost(self, rows: _Ints, keys: _Ints) -> NDArray[np.bool_]:
        """Whether no other of these rows that encloses a row has its key.

        Args:
            rows: the rows in question, each once.
            keys: a number for each of them, at least 0.
        """
        first, last = (numbers[rows] for numbers in self.spans)
        order = np.lexsort((first, keys))
        apart = keys[order] * (len(self.event_id) + 1)
        reach = np.maximum.accumulate(np.r_[-1, apart + last[order]])
        found = np.empty(len(rows), dtype=np.bool_)
        found[order] = reach[:-1] <= apart + first[order]
        return found

    def _sizes(self) -> _Ints:
        """The number of rows in each row, itself included: added level by level, the deepest first."""
        sizes = np.ones(len(self.event_id), dtype=np.int64)
        order = np.argsort(-self.depth, kind="stable")
        order = order[self.enclosing[order] != order]
        for level in np.split(order, np.flatnonzero(np.diff(self.depth[order])) + 1):
            np.add.at(sizes, self.enclosing[level], sizes[level])
        return sizes


def op_tree(host_tree: pl.DataFrame) -> OpTree:
    """The tree of a table `host_tree`."""
    event_id = host_tree.get_column("event_id").to_numpy()
    enclosing = host_tree.get_column("op_event").fill_null(-1).to_numpy()
    rows = np.searchsorted(event_id, enclosing)
    return OpTree(
        event_id,
        np.where(enclosing < 0, np.arange(len(event_id)), rows),
        host_tree.get_column("depth").to_numpy(),
    )
