"""The nearest ancestor that counts: by a mapping for few nodes, by arrays for all nodes at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest", "nearest_ancestors", "nearest_rows"]

_Ints = NDArray[np.int64]
_NONE = -1


def nearest(start: int | None, parent_of: Mapping[int, int | None], known: Collection[int]) -> int | None:
    """The first of `start`, its parent, the parent's parent and so on that is known; None where none is."""
    while start is not None and start not in known:
        start = parent_of.get(start)
    return start


def nearest_rows(parent: _Ints, wanted: NDArray[np.bool_]) -> _Ints:
    """For each row the nearest wanted row among itself and its ancestors; -1 where there is none.

    Pointers are doubled: after k rounds each has come up to 2**k rows far.

    Args:
        parent: the row of each row's parent; the row itself or -1 where it has none.
        wanted: whether each row counts.
    """
    target = np.where(wanted | (parent == _NONE), np.arange(len(parent)), parent)
    while not np.array_equal(further := target[target], target):
        target = further
    found: _Ints = np.where(wanted[target], target, _NONE)
    return found


def nearest_ancestors(parent: _Ints, wanted: NDArray[np.bool_]) -> _Ints:
    """For each row the nearest wanted row among its ancestors, itself left out; -1 where there is none.

    Args:
        parent: the row of each row's parent; -1 where it has none.
        wanted: whether each row counts.
    """
    found: _Ints = np.where(parent == _NONE, _NONE, nearest_rows(parent, wanted)[np.maximum(parent, 0)])
    return found
