"""Gathering and scattering: what is selected is read and written, with the indices; an addition for each that is added.

What an op by boolean or several indices selects, only its output says, which the Execution Trace has.
"""

from __future__ import annotations

from functools import partial

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]


def _index_select(op: Operands) -> Cost:
    """self, dim, index."""
    x, index = op.tensor(0), op.tensor(2)
    if not x.shape:
        raise UnknownOperandError(op.name)
    axis = op.integer(1)
    if not -len(x.shape) <= axis < len(x.shape):
        raise UnknownOperandError(op.name)
    axis %= len(x.shape)
    rows = x.like(tuple(index.numel if i == axis else size for i, size in enumerate(x.shape)))
    return cost(0, (index, rows), (rows,))


def _gather(op: Operands) -> Cost:
    """self, dim, index: as many as there are indices."""
    x, index = op.tensor(0), op.tensor(2)
    found = x.like(index.shape)
    return cost(0, (index, found), (found,))


def _index(op: Operands) -> Cost:
    """self, list of indices."""
    found = op.output(0)
    indices = op.tensors(1) if op.values[1:2] != (None,) else ()
    return cost(0, (*indices, found), (found,))


def _scatter(op: Operands, source: int, adds: bool) -> Cost:
    """self, dim, index, source: written where the indices say; read first where something is added."""
    x, index, values = op.tensor(0), op.tensor(2), op.optional(source)
    count = index.numel if values is None else values.numel
    target = x.like((count,))
    extra = () if op.name.endswith("_") else (x,)
    copied = () if op.name.endswith("_") else (x.like(),)
    reads = (index, values, target if adds else None, *extra)
    return cost(count if adds else 0, reads, (target, *copied))


def _index_put(op: Operands) -> Cost:
    """self, indices, values, accumulate."""
    x, values = op.tensor(0), op.tensor(2)
    adds = op.has_scalar(3) and op.flags(3)[0]
    target = x.like(values.shape)
    indices = op.tensors(1) if op.values[1:2] != (None,) else ()
    return cost(values.numel if adds else 0, (values, *indices, target if adds else None), (target,))


def _rule(source: int, adds: bool) -> Rule:
    return Rule(OpFamily.INDEXING, partial(_scatter, source=source, adds=adds))


RULES: dict[str, Rule] = {
    "aten::index_select": Rule(OpFamily.INDEXING, _index_select),
    "aten::gather": Rule(OpFamily.INDEXING, _gather),
    "aten::index": Rule(OpFamily.INDEXING, _index),
    **dict.fromkeys(("aten::index_add", "aten::index_add_"), _rule(3, True)),
    **dict.fromkeys(("aten::scatter_add", "aten::scatter_add_"), _rule(3, True)),
    **dict.fromkeys(("aten::scatter", "aten::scatter_"), _rule(3, False)),
    **dict.fromkeys(
        ("aten::_index_put_impl_", "aten::index_put_", "aten::index_put"), Rule(OpFamily.INDEXING, _index_put)
    ),
}
"""How gathering and scattering are counted."""
