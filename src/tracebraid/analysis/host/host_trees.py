"""The host events of a rank as trees: of ops alone, and with Python functions and runtime calls."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.event_columns import event_columns
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree, op_tree

__all__ = ["host_names", "host_ops", "host_parents"]


def host_parents(linked: LinkedTrace) -> OpTree:
    """All rows of `host_tree`, each in the innermost host event of any kind that encloses it on its thread."""
    return linked.derived(_host_parents)


def _host_parents(linked: LinkedTrace) -> OpTree:
    tree = linked.host_tree
    event_id = tree.get_column("event_id").to_numpy()
    parent = tree.get_column("parent_event").fill_null(-1).to_numpy()
    rows = np.searchsorted(event_id, parent)
    enclosing = np.where(parent < 0, np.arange(len(event_id)), rows)
    return OpTree(event_id, enclosing, tree.get_column("depth").to_numpy())


def host_ops(linked: LinkedTrace) -> OpTree:
    """All rows of `host_tree`, each in the innermost op that encloses it on its thread."""
    return linked.derived(_host_ops)


def _host_ops(linked: LinkedTrace) -> OpTree:
    return op_tree(linked.host_tree)


def host_names(linked: LinkedTrace) -> pl.DataFrame:
    """The host events in the order of `host_tree`: event_id, name and category (categoricals), lane, ts_ns."""
    return linked.derived(_host_names)


def _host_names(linked: LinkedTrace) -> pl.DataFrame:
    event = linked.host_tree.get_column("event_id")
    columns = ("name", "category", "lane", "ts_ns")
    return pl.DataFrame([event, *event_columns(linked.timeline, event, **{name: name for name in columns})])
