"""What names of host events say of memory: which ops only allocate, which belong to which phase of a training step."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.host.name_rules import is_in_role, is_operator
from tracebraid.analysis.memory.host.phase_codes import phase_code
from tracebraid.model.answers import TrainingPhase
from tracebraid.model.category import Role
from tracebraid.model.device_kind import host_op_communicates

__all__ = ["memory_rules"]

_ALLOCATES = (
    r"^aten::(new_)?(empty|zeros|ones|full|clone|resize)(_like|_strided|_quantized|_permuted)?_?$|"
    r"^aten::(to|_to_copy|contiguous|detach)$|^inductor::_alloc_from_pool$"
)
"""Ops whose purpose is the tensor that they make: the op around them says more."""

_BACKWARD = r"^autograd::engine::|^torch::autograd::|^(\w+::)*\w+Backward\d*$"
"""Nodes of autograd, as its engine runs them."""

_PHASE_OF_ANNOTATION = {
    TrainingPhase.OPTIMIZER: r"^Optimizer\.step#",
    TrainingPhase.ZERO_GRAD: r"^Optimizer\.zero_grad#",
    TrainingPhase.LOADING: r"^enumerate\(DataLoader\)#",
}
"""Annotations that PyTorch itself makes."""


def memory_rules(events: pl.DataFrame) -> pl.DataFrame:
    """What names and categories say of host events.

    Columns: `allocates`, it is an op that only makes a tensor; `communicates`, it is of a communication library;
    `phase`, the code of the phase that it marks; -1: none.

    Args:
        events: columns `name` and `category` as text, each pair of them once.
    """
    name = pl.col("name")
    is_annotation = is_in_role(Role.OP, Role.ANNOTATION) & ~is_operator()
    marks = [
        pl.when(is_annotation & name.str.contains(pattern)).then(phase_code(marked))
        for marked, pattern in _PHASE_OF_ANNOTATION.items()
    ]
    marks.append(
        pl.when(is_operator() & name.str.contains(_BACKWARD)).then(phase_code(TrainingPhase.BACKWARD))
    )
    return events.select(
        (is_operator() & name.str.contains(_ALLOCATES)).alias("allocates"),
        host_op_communicates(events).fill_null(value=False).alias("communicates"),
        pl.coalesce(*marks, -1).cast(pl.Int64).alias("phase"),
    )
