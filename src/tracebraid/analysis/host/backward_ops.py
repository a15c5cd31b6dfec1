"""Which host events are backward ops, and of which forward ops?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.host.host_trees import host_names, host_parents
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_rows
from tracebraid.model.op_tree import OpTree

__all__ = ["backward_ops", "with_forward"]

_Ints = NDArray[np.int64]
_BACKWARD_OP = "autograd::engine::evaluate_function: "
"""How autograd names the ops around the nodes of a backward pass."""


def backward_ops(linked: LinkedTrace) -> tuple[_Ints, _Ints]:
    """Rows of `host_tree` that are backward ops, and for each the row of its forward op; -1: unknown."""
    tree = host_parents(linked)
    linked_rows, of_linked = _pairs(linked, tree)
    named = (
        host_names(linked)
        .select(as_text("name").str.starts_with(_BACKWARD_OP).fill_null(value=False))
        .to_series()
        .to_numpy()
    )
    forward = np.full(len(tree.event_id), -1, dtype=np.int64)
    forward[linked_rows] = of_linked
    named[linked_rows] = True
    rows = np.flatnonzero(named)
    return rows, forward[rows]


def with_forward(linked: LinkedTrace, own: _Ints) -> _Ints:
    """What belongs to each row of `host_tree`; where nothing does, what belongs to its forward op.

    Threads of autograd run no Python functions: what a backward op and all in it belong to is known by the forward op
    alone, as in torch's own profiler.

    Args:
        linked: one rank.
        own: a number for each row; -1: nothing.
    """
    tree = host_parents(linked)
    backward, forward = _pairs(linked, tree)
    of_forward = np.full(len(own), -1, dtype=np.int64)
    of_forward[backward] = own[forward]
    marked = np.zeros(len(own), dtype=np.bool_)
    marked[backward] = True
    nearest = nearest_rows(tree.enclosing, marked)
    inherited = np.where(nearest >= 0, of_forward[np.maximum(nearest, 0)], -1)
    found: _Ints = np.where(own >= 0, own, inherited)
    return found


def _pairs(linked: LinkedTrace, tree: OpTree) -> tuple[_Ints, _Ints]:
    """Rows of backward ops, and those of their forward ops."""
    pairs = linked.forward_backward.unique("backward_event", keep="first", maintain_order=True)
    backward, forward = (
        tree.rows(pairs.get_column(name).to_numpy()) for name in ("backward_event", "forward_event")
    )
    return backward, forward
