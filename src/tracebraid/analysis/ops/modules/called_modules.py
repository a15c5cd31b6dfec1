"""Where module calls and backward ops put the host events inside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.host.backward_ops import backward_ops
from tracebraid.analysis.host.host_trees import host_names, host_parents
from tracebraid.analysis.ops.modules.module_calls import ModuleCalls
from tracebraid.analysis.ops.modules.module_rows import NEVER, ModuleTree, first_starts, rows_at
from tracebraid.analysis.ops.name_paths import paths_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_ancestors

__all__ = ["called_modules"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class _Marks:
    """The rows that decide in which module the rows inside are: calls of modules, and backward ops.

    Args:
        rows: their rows in `host_tree`.
        name: for each the number of its name; -1 for backward ops, which extend no path.
        forward: for each backward op the row of its forward op; -1: unknown, or a call.
    """

    rows: _Ints
    name: _Ints
    forward: _Ints


def called_modules(linked: LinkedTrace, calls: ModuleCalls) -> ModuleTree:
    """The modules of a rank by their calls.

    Args:
        linked: one rank.
        calls: at least one.
    """
    marks = _with_backward(linked, calls.rows, calls.name)
    tree = host_parents(linked)
    parent = np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing)
    number = np.full(len(parent) + 1, -1, dtype=np.int64)
    number[marks.rows] = np.arange(len(marks.rows))
    is_mark = number[:-1] >= 0
    nearest = number[tree.nearest(is_mark)]
    outer = number[nearest_ancestors(parent, is_mark)[marks.rows]]
    is_backward = marks.name < 0
    in_backward = tree.nearest(rows_at(marks.rows[is_backward], len(parent)))[marks.rows] >= 0
    of_forward = np.where(marks.forward >= 0, nearest[np.maximum(marks.forward, 0)], outer)
    inside = np.where(is_backward, of_forward, outer)
    start = host_names(linked).get_column("ts_ns").to_numpy()[marks.rows]
    inside = _as_in_forward(inside, marks, np.where(is_backward | in_backward, NEVER, start))
    paths = paths_of(inside, marks.name)
    backward, recompute = np.r_[is_backward, False], np.r_[in_backward & ~is_backward, False]
    path = np.r_[paths.path, -1][nearest]
    return ModuleTree(
        source=calls.source,
        paths=paths,
        names=calls.names,
        classes=calls.classes,
        path=path,
        backward=backward[nearest],
        recompute=recompute[nearest],
        is_call=rows_at(calls.rows, len(parent)),
        first=first_starts(linked, paths, path),
    )


def _with_backward(linked: LinkedTrace, calls: _Ints, number: _Ints) -> _Marks:
    backward, forward = backward_ops(linked)
    none = np.full(len(backward), -1, dtype=np.int64)
    rows = np.r_[calls, backward]
    order = np.argsort(rows, kind="stable")
    return _Marks(
        rows[order],
        np.r_[number, none][order],
        np.r_[np.full(len(calls), -1, dtype=np.int64), forward][order],
    )


def _as_in_forward(inside: _Ints, marks: _Marks, start: _Ints) -> _Ints:
    """What each mark is in, where calls directly in a backward op are in what their module's first call was in.

    Args:
        inside: the mark that each is in.
        marks: the marks.
        start: when each began, `NEVER` for all but calls of the forward pass.
    """
    plain = np.flatnonzero(start < NEVER)
    plain = plain[np.argsort(-start[plain], kind="stable")]
    first = np.full(int(marks.name.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[marks.name[plain]] = plain
    is_backward = marks.name < 0
    directly = ~is_backward & (inside >= 0) & is_backward[np.maximum(inside, 0)]
    known = np.where(directly, first[np.maximum(marks.name, 0)], -1)
    return np.where(known >= 0, inside[np.maximum(known, 0)], inside)
