"""The tree of a rank's host ops, for walks that several questions share."""

from __future__ import annotations

from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree, op_tree

__all__ = ["host_walk"]


def host_walk(linked: LinkedTrace) -> OpTree:
    """The tree of `linked.host_tree`, made once."""
    return linked.derived(_host_walk)


def _host_walk(linked: LinkedTrace) -> OpTree:
    return op_tree(linked.host_tree)
