"""The ops of a `host_tree` as a tree, and walks over it whose cost does not grow with its depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["OpTree", "op_tree"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class OpTree:
    """The host events of a tree, each with the op around it.

    Args:
        event_id: event of each row, rising.
        around: row of the op around each row's event; its own row where there is none.
        depth: number of host events around it.
    """

    event_id: _Ints
    around: _Ints
    depth: _Ints

    def rows(self, events: _Ints) -> _Ints:
        """The rows of some events, all of them in the tree."""
        rows: _Ints = np.searchsorted(self.event_id, events)
        return rows

    def nearest(self, wanted: NDArray[np.bool_]) -> _Ints:
        """For each row the nearest wanted row among itself and the ops around it; -1 where there is none.

        Pointers are doubled: after k rounds each has come up to 2**k ops far.
        """
        target = np.where(wanted, np.arange(len(wanted)), self.around)
        while not np.array_equal(further := target[target], target):
            target = further
        nearest: _Ints = np.where(wanted[target], target, -1)
        return nearest

    def sums(self, own: _Ints) -> _Ints:
        """For each row its own amount and those of all events that it is around of, at any depth."""
        total: _Ints = own.copy()
        order = np.argsort(-self.depth, kind="stable")
        order = order[self.around[order] != order]
        for level in np.split(order, np.flatnonzero(np.diff(self.depth[order])) + 1):
            np.add.at(total, self.around[level], total[level])
        return total


def op_tree(host_tree: pl.DataFrame) -> OpTree:
    """The tree of a table `host_tree`."""
    event_id = host_tree.get_column("event_id").to_numpy()
    around = host_tree.get_column("op_event").fill_null(-1).to_numpy()
    rows = np.searchsorted(event_id, around)
    return OpTree(
        event_id,
        np.where(around < 0, np.arange(len(event_id)), rows),
        host_tree.get_column("depth").to_numpy(),
    )
