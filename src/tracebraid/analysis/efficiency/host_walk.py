"""The tree of a rank's host ops, for walks that several questions share."""

from __future__ import annotations

from tracebraid.analysis.host_parents import op_rows
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree

__all__ = ["host_walk"]


def host_walk(linked: LinkedTrace) -> OpTree:
    """The tree of `linked.host_tree`, made once."""
    return op_rows(linked)
