"""Which nn.Module is each host event in, forward or backward?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host_parents import host_names, host_parents
from tracebraid.analysis.ops.name_paths import Paths, paths_of
from tracebraid.analysis.ops.recorded_modules import Module, recorded_modules
from tracebraid.model.answers import ModuleSource
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.module_name import class_of, instance_of, is_module_call
from tracebraid.model.nearest import nearest_ancestors

__all__ = ["ModuleTree", "module_tree"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_NEVER = np.iinfo(np.int64).max
_BACKWARD_OP = "autograd::engine::evaluate_function: "
"""How autograd names the ops around the nodes of a backward pass."""


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


def module_tree(linked: LinkedTrace) -> ModuleTree:
    """The modules of a rank, kept with the linked trace.

    The first of these that the trace has counts: module calls among the Python functions (`with_stack`), the module
    hierarchy of TorchScript ops (`with_modules`), the call stacks of old traces.

    Each event is in the module whose call is the nearest around it. A backward op is in the module of its forward op,
    which has the same sequence number; one whose forward op is unknown is where it is called. A module that a backward
    op calls, as checkpointing does, is where it was when it was called in the forward pass.
    """
    return linked.derived(_module_tree)


def _module_tree(linked: LinkedTrace) -> ModuleTree:
    names = host_names(linked)
    is_python = as_text("category").is_in(categories_of(Role.PYTHON)).fill_null(value=False)
    is_call = names.select(is_python & is_module_call(as_text("name")).fill_null(value=False)).to_series()
    calls = np.flatnonzero(is_call.to_numpy())
    if len(calls):
        text = names.get_column("name").gather(calls).cast(pl.String)
        unique = text.unique(maintain_order=True).to_frame("name").select(instance_of(pl.col("name")))
        number = (
            text.to_frame("name")
            .select(instance_of(pl.col("name")))
            .to_series()
            .replace_strict(unique.get_column("name"), range(unique.height), return_dtype=pl.Int64)
        )
        marks = _with_backward(linked, calls, number.to_numpy())
        classes = unique.select(class_of(pl.col("name"))).to_series().to_list()
        return _placed(
            linked, ModuleSource.MODULE_EVENTS, marks, (unique.get_column("name").to_list(), classes)
        )
    return _of_recorded(linked)


def _with_backward(linked: LinkedTrace, calls: _Ints, number: _Ints) -> _Marks:
    backward, forward = _backward_ops(linked)
    none = np.full(len(backward), -1, dtype=np.int64)
    rows = np.r_[calls, backward]
    order = np.argsort(rows, kind="stable")
    return _Marks(
        rows[order],
        np.r_[number, none][order],
        np.r_[np.full(len(calls), -1, dtype=np.int64), forward][order],
    )


def _backward_ops(linked: LinkedTrace) -> tuple[_Ints, _Ints]:
    """Rows of backward ops, and for each the row of its forward op; -1: unknown."""
    tree = host_parents(linked)
    pairs = linked.forward_backward.unique("backward_event", keep="first", maintain_order=True)
    linked_rows = tree.rows(pairs.get_column("backward_event").to_numpy())
    named = (
        host_names(linked)
        .select(as_text("name").str.starts_with(_BACKWARD_OP).fill_null(value=False))
        .to_series()
        .to_numpy()
    )
    forward = np.full(len(tree.event_id), -1, dtype=np.int64)
    forward[linked_rows] = tree.rows(pairs.get_column("forward_event").to_numpy())
    named[linked_rows] = True
    rows = np.flatnonzero(named)
    return rows, forward[rows]


def _placed(
    linked: LinkedTrace, source: ModuleSource, marks: _Marks, names: tuple[list[str], list[str | None]]
) -> ModuleTree:
    tree = host_parents(linked)
    parent = np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing)
    number = np.full(len(parent) + 1, -1, dtype=np.int64)
    number[marks.rows] = np.arange(len(marks.rows))
    is_mark = number[:-1] >= 0
    nearest = number[tree.nearest(is_mark)]
    outer = number[nearest_ancestors(parent, is_mark)[marks.rows]]
    is_backward = marks.name < 0
    in_backward = tree.nearest(_at(marks.rows[is_backward], len(parent)))[marks.rows] >= 0
    of_forward = np.where(marks.forward >= 0, nearest[np.maximum(marks.forward, 0)], outer)
    inside = np.where(is_backward, of_forward, outer)
    start = host_names(linked).get_column("ts_ns").to_numpy()[marks.rows]
    inside = _as_in_forward(inside, marks, np.where(is_backward | in_backward, _NEVER, start))
    paths = paths_of(inside, marks.name)
    backward, recompute = np.r_[is_backward, False], np.r_[in_backward & ~is_backward, False]
    calls = _at(marks.rows[~is_backward], len(parent))
    path = np.r_[paths.path, -1][nearest]
    return ModuleTree(
        source,
        paths,
        *names,
        path,
        backward[nearest],
        recompute[nearest],
        calls,
        _first(linked, paths, path),
    )


def _as_in_forward(inside: _Ints, marks: _Marks, start: _Ints) -> _Ints:
    """What each mark is in, where calls directly in a backward op are in what their module's first call was in.

    Args:
        inside: the mark that each is in.
        marks: the marks.
        start: when each began, `_NEVER` for all but calls of the forward pass.
    """
    plain = np.flatnonzero(start < _NEVER)
    plain = plain[np.argsort(-start[plain], kind="stable")]
    first = np.full(int(marks.name.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[marks.name[plain]] = plain
    is_backward = marks.name < 0
    directly = ~is_backward & (inside >= 0) & is_backward[np.maximum(inside, 0)]
    known = np.where(directly, first[np.maximum(marks.name, 0)], -1)
    return np.where(known >= 0, inside[np.maximum(known, 0)], inside)


def _of_recorded(linked: LinkedTrace) -> ModuleTree:
    """The modules that ops carry with them: an op that carries none is where the nearest around it is."""
    source, ops, modules = recorded_modules(linked)
    tree = host_parents(linked)
    number_of: dict[tuple[int, Module], int] = {}
    ends = np.array([_number(names, number_of) for names in modules], dtype=np.int64)
    backward, forward = _backward_ops(linked)
    path = np.full(len(tree.event_id) + 1, -1, dtype=np.int64)
    ops = ops.filter(pl.col("event_id").is_in(linked.host_tree.get_column("event_id").implode()))
    carrying = tree.rows(ops.get_column("event_id").to_numpy())
    path[carrying] = ends[ops.get_column("modules").to_numpy()]
    carries = _at(carrying, len(tree.event_id))
    gone_back = (forward >= 0) & ~carries[backward]
    path[backward[gone_back]] = path[tree.nearest(carries)[forward[gone_back]]]
    nearest = tree.nearest(carries | _at(backward[gone_back], len(tree.event_id)))
    names = {module: i for i, module in enumerate(dict.fromkeys(module for _, module in number_of))}
    paths = Paths(
        ends,
        np.array([parent for parent, _ in number_of], dtype=np.int64),
        np.array([names[module] for _, module in number_of], dtype=np.int64),
    )
    in_backward = tree.nearest(_at(backward, len(tree.event_id))) >= 0
    return ModuleTree(
        source,
        paths,
        [name for name, _ in names],
        [kind for _, kind in names],
        path[nearest],
        in_backward,
        np.zeros(len(tree.event_id), dtype=np.bool_),
        None,
        _first(linked, paths, path[nearest]),
    )


def _number(modules: list[Module], number_of: dict[tuple[int, Module], int]) -> int:
    number = -1
    for module in modules:
        number = number_of.setdefault((number, module), len(number_of))
    return number


def _first(linked: LinkedTrace, paths: Paths, path: _Ints) -> _Ints:
    """For each path when the first host event in it, or in what extends it, started."""
    first = np.full(len(paths.parent), _NEVER, dtype=np.int64)
    inside = path >= 0
    np.minimum.at(first, path[inside], host_names(linked).get_column("ts_ns").to_numpy()[inside])
    for number in range(len(first) - 1, -1, -1):
        parent = paths.parent[number]
        if parent >= 0:
            first[parent] = min(first[parent], first[number])
    return first


def _at(rows: _Ints, length: int) -> _Bools:
    found = np.zeros(length, dtype=np.bool_)
    found[rows] = True
    return found
