"""What is known of modules, row by row of the host's events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.ops.name_paths import Paths
from tracebraid.model.answers import ModuleSource
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["NEVER", "ModuleTree", "first_starts", "rows_at"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
NEVER = np.iinfo(np.int64).max
"""Later than any moment."""


@dataclass(frozen=True)
class ModuleTree:
    """The modules of a rank, and the host events in them.

    Args:
        source: what the modules are known from; None where nothing tells.
        paths: the modules' paths.
        names: for each number of a name in `paths` the name of the module.
        classes: the same, the module's class; null: unknown.
        path: for each row of `host_tree` the number of its module's path; -1: in none.
        backward: whether each row is in a backward op.
        recompute: whether each row is in the forward function of a module that a backward op called.
        is_call: whether each row is the call of a module; None where calls are not in the trace.
        first: for each path when the first host event in it, or in a module inside, started.
    """

    source: ModuleSource | None
    paths: Paths
    names: list[str]
    classes: list[str | None]
    path: _Ints
    backward: _Bools
    recompute: _Bools
    is_call: _Bools | None
    first: _Ints


def first_starts(linked: LinkedTrace, paths: Paths, path: _Ints) -> _Ints:
    """For each path when the first host event in it, or in what extends it, started."""
    first = np.full(len(paths.parent), NEVER, dtype=np.int64)
    inside = path >= 0
    np.minimum.at(first, path[inside], host_names(linked).get_column("ts_ns").to_numpy()[inside])
    for number in range(len(first) - 1, -1, -1):
        parent = paths.parent[number]
        if parent >= 0:
            first[parent] = min(first[parent], first[number])
    return first


def rows_at(rows: _Ints, length: int) -> _Bools:
    """Whether each of so many rows is among some."""
    found = np.zeros(length, dtype=np.bool_)
    found[rows] = True
    return found
