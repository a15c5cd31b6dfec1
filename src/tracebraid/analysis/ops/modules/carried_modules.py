"""The modules of a rank by what ops carry with them."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.host.backward_ops import backward_ops
from tracebraid.analysis.host.host_trees import host_parents
from tracebraid.analysis.ops.modules.module_rows import ModuleTree, first_starts, rows_at
from tracebraid.analysis.ops.modules.recorded_modules import Module, recorded_modules
from tracebraid.analysis.ops.name_paths import Paths
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["carried_modules"]


def carried_modules(linked: LinkedTrace) -> ModuleTree:
    """The modules that ops carry with them: an op that carries none is where the nearest around it is."""
    source, ops, modules = recorded_modules(linked)
    tree = host_parents(linked)
    number_of: dict[tuple[int, Module], int] = {}
    ends = np.array([_number(names, number_of) for names in modules], dtype=np.int64)
    backward, forward = backward_ops(linked)
    path = np.full(len(tree.event_id) + 1, -1, dtype=np.int64)
    ops = ops.filter(pl.col("event_id").is_in(linked.host_tree.get_column("event_id").implode()))
    carrying = tree.rows(ops.get_column("event_id").to_numpy())
    path[carrying] = ends[ops.get_column("modules").to_numpy()]
    carries = rows_at(carrying, len(tree.event_id))
    gone_back = (forward >= 0) & ~carries[backward]
    path[backward[gone_back]] = path[tree.nearest(carries)[forward[gone_back]]]
    nearest = tree.nearest(carries | rows_at(backward[gone_back], len(tree.event_id)))
    names = {module: i for i, module in enumerate(dict.fromkeys(module for _, module in number_of))}
    paths = Paths(
        ends,
        np.array([parent for parent, _ in number_of], dtype=np.int64),
        np.array([names[module] for _, module in number_of], dtype=np.int64),
    )
    in_backward = tree.nearest(rows_at(backward, len(tree.event_id))) >= 0
    return ModuleTree(
        source,
        paths,
        [name for name, _ in names],
        [kind for _, kind in names],
        path[nearest],
        in_backward,
        np.zeros(len(tree.event_id), dtype=np.bool_),
        None,
        first_starts(linked, paths, path[nearest]),
    )


def _number(modules: list[Module], number_of: dict[tuple[int, Module], int]) -> int:
    number = -1
    for module in modules:
        number = number_of.setdefault((number, module), len(number_of))
    return number
