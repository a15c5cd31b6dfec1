"""Which host events are backward ops, and of which forward ops?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.host_parents import host_names, host_parents
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["backward_ops"]

_Ints = NDArray[np.int64]
_BACKWARD_OP = "autograd::engine::evaluate_function: "
"""How autograd names the ops around the nodes of a backward pass."""


def backward_ops(linked: LinkedTrace) -> tuple[_Ints, _Ints]:
    """Rows of `host_tree` that are backward ops, and for each the row of its forward op; -1: unknown."""
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
