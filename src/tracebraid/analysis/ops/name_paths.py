"""Paths of names: what nested modules, or nested annotations, are called from the outermost inwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["Paths", "paths_of"]

_Ints = NDArray[np.int64]
_NONE = -1
_OPEN = -2


@dataclass(frozen=True)
class Paths:
    """Paths, each by a number that is greater than that of the path it extends.

    Args:
        path: for each mark the number of its path; -1: none.
        parent: for each path the one that it extends by a name; -1: none.
        name: for each path the number of its last name.
    """

    path: _Ints
    parent: _Ints
    name: _Ints

    @property
    def depth(self) -> _Ints:
        """For each path how many others it extends."""
        depth = np.zeros(len(self.parent), dtype=np.int64)
        for number, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                depth[number] = depth[parent] + 1
        return depth

    def texts(self, names: list[str], separator: str) -> list[str]:
        """Each path as text.

        Args:
            names: the text of each name.
            separator: between names.
        """
        texts: list[str] = []
        for parent, name in zip(self.parent.tolist(), self.name.tolist(), strict=True):
            texts.append(names[name] if parent < 0 else texts[parent] + separator + names[name])
        return texts

    def ancestors(self) -> pl.DataFrame:
        """A row for each path and each that it extends, itself included: `path`, `ancestor`."""
        path = ancestor = np.arange(len(self.parent), dtype=np.int64)
        paths, ancestors = [path], [ancestor]
        while len(path):
            above = self.parent[ancestor]
            path, ancestor = path[above >= 0], above[above >= 0]
            paths.append(path)
            ancestors.append(ancestor)
        return pl.DataFrame({"path": np.concatenate(paths), "ancestor": np.concatenate(ancestors)})

    def walk(self, first: _Ints) -> list[int]:
        """The paths as a walk through their tree: each before those that extend it, siblings by `first`.

        Args:
            first: for each path a number by which siblings are ordered.
        """
        inside: dict[int, list[int]] = {}
        for path in sorted(range(len(self.parent)), key=lambda path: (-int(first[path]), -path)):
            inside.setdefault(int(self.parent[path]), []).append(path)
        found, left = [], inside.get(_NONE, [])
        while left:
            path = left.pop()
            found.append(path)
            left.extend(inside.get(path, []))
        return found


def paths_of(inside: _Ints, names: _Ints) -> Paths:
    """The path of each mark: that of the mark that it is in, extended by its name.

    Marks are resolved in rounds, each those whose outer mark is resolved: as many rounds as marks nest.

    Args:
        inside: for each mark the one that it is in; -1: in none. Marks in a circle have no path.
        names: for each mark the number of its name, at least 0; -1: it extends no path, and has that it is in.
    """
    path = np.full(len(inside), _OPEN, dtype=np.int64)
    number_of: dict[tuple[int, int], int] = {}
    left = np.arange(len(inside))
    while len(left):
        outer = inside[left]
        base = np.where(outer < 0, _NONE, path[np.maximum(outer, 0)])
        ready = base != _OPEN
        if not ready.any():
            break
        marks, base, name = left[ready], base[ready], names[left[ready]]
        path[marks] = _extended(base, name, number_of)
        left = left[~ready]
    path[path == _OPEN] = _NONE
    keys = np.array(list(number_of), dtype=np.int64).reshape(-1, 2)
    return Paths(path, keys[:, 0], keys[:, 1])


def _extended(base: _Ints, name: _Ints, number_of: dict[tuple[int, int], int]) -> _Ints:
    """The number of each (path, name): new ones get the next numbers, in the order in which they are met."""
    if not len(base):
        return base
    width = int(name.max()) + 2
    keys, first, which = np.unique((base + 1) * width + name + 1, return_index=True, return_inverse=True)
    numbers = np.empty(len(keys), dtype=np.int64)
    for i in np.argsort(first, kind="stable").tolist():
        row = first[i]
        pair = int(base[row]), int(name[row])
        numbers[i] = base[row] if pair[1] < 0 else number_of.setdefault(pair, len(number_of))
    extended: _Ints = numbers[which]
    return extended
