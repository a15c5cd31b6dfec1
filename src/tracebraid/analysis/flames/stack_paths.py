"""Rows of trees merged into paths: those whose names from the root inwards are the same make one path."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["StackPaths", "depths", "stack_paths"]

_Ints = NDArray[np.int64]
_NONE = -1


@dataclass(frozen=True)
class StackPaths:
    """Paths, each by a number that is greater than that of the path it extends.

    Args:
        path: for each row the number of its path.
        parent: for each path the one that it extends by a name; -1: none.
        name: for each path the number of its last name.
        depth: for each path how many others it extends.
    """

    path: _Ints
    parent: _Ints
    name: _Ints
    depth: _Ints


def depths(parent: _Ints) -> _Ints:
    """The number of ancestors of each row: pointers are doubled, so that deep trees cost little.

    Args:
        parent: the row of each row's parent; -1 where it has none.
    """
    last = len(parent)
    target = np.r_[np.where(parent < 0, last, parent), last]
    depth = (target < last).astype(np.int64)
    while (target < last).any():
        depth, target = depth + depth[target], target[target]
    found: _Ints = depth[:-1]
    return found


def stack_paths(parent: _Ints, name: _Ints) -> StackPaths:
    """The path of each row, level by level.

    Args:
        parent: the row of each row's parent; -1 where it has none.
        name: the number of each row's name, at least 0.
    """
    depth = depths(parent)
    order = np.argsort(depth, kind="stable")
    levels = int(depth.max(initial=-1)) + 1
    bounds = np.searchsorted(depth[order], np.arange(levels + 1))
    width = int(name.max(initial=0)) + 1
    path = np.full(len(parent) + 1, _NONE, dtype=np.int64)
    keys: list[_Ints] = []
    count = 0
    for first, last in pairwise(bounds.tolist()):
        rows = order[first:last]
        level, which = np.unique((path[parent[rows]] + 1) * width + name[rows], return_inverse=True)
        path[rows] = count + which
        count += len(level)
        keys.append(level)
    sizes = [len(level) for level in keys]
    all_keys = np.concatenate([np.empty(0, dtype=np.int64), *keys])
    return StackPaths(
        path[:-1],
        all_keys // width - 1,
        all_keys % width,
        np.repeat(np.arange(levels, dtype=np.int64), sizes),
    )
