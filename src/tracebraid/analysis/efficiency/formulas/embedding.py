"""Embeddings: rows that are looked up are read, not the table; bags add their rows.

An index of a bag costs an addition for each number of its row; a backward pass adds each gradient to its row and writes
the gradient of the whole table, which is dense.
"""

from __future__ import annotations

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]


def _embedding(op: Operands) -> Cost:
    """weight, indices."""
    weight, indices = op.tensor(0), op.tensor(1)
    if len(weight.shape) != 2:
        raise UnknownOperandError(op.name)
    rows = weight.like((*indices.shape, weight.shape[1]))
    return cost(0, (indices, rows), (rows,))


def _backward(op: Operands) -> Cost:
    """gradient, indices, number of rows."""
    grad, indices, rows = op.tensor(0), op.tensor(1), op.integer(2)
    if not grad.shape or rows < 0:
        raise UnknownOperandError(op.name)
    return cost(grad.numel, (grad, indices), (grad.like((rows, grad.shape[-1])),))


def _bag(op: Operands) -> Cost:
    """weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset."""
    weight, indices, offsets = op.tensor(0), op.tensor(1), op.tensor(2)
    if len(weight.shape) != 2 or not offsets.shape:
        raise UnknownOperandError(op.name)
    weights = op.optional(6)
    last = op.has_scalar(7) and op.flags(7)[0]
    bags = max(offsets.shape[0] - (1 if last else 0), 0)
    rows = weight.like((indices.numel, weight.shape[1]))
    flops = rows.numel * (1 if weights is None else 2)
    return cost(flops, (indices, offsets, rows, weights), (weight.like((bags, weight.shape[1])),))


def _bag_backward(op: Operands) -> Cost:
    """gradient, indices, offsets, offset2bag, bag_size, maximum_indices, number of rows, ..., sparse at 9.

    A sparse gradient has a row for each index, and adds none.
    """
    grad, indices = op.tensor(0), op.tensor(1)
    rows = op.integer(6)
    if not grad.shape or rows < 0:
        raise UnknownOperandError(op.name)
    is_sparse = op.has_scalar(9) and op.flags(9)[0]
    table = grad.like((indices.numel if is_sparse else rows, grad.shape[-1]))
    flops = 0 if is_sparse else indices.numel * grad.shape[-1]
    return cost(flops, (grad, indices, op.optional(2), op.optional(3), op.optional(4)), (table,))


RULES: dict[str, Rule] = {
    "aten::embedding": Rule(OpFamily.EMBEDDING, _embedding),
    "aten::embedding_dense_backward": Rule(OpFamily.EMBEDDING, _backward),
    "aten::_embedding_bag": Rule(OpFamily.EMBEDDING, _bag),
    "aten::_embedding_bag_forward_only": Rule(OpFamily.EMBEDDING, _bag),
    "aten::_embedding_bag_backward": Rule(OpFamily.EMBEDDING, _bag_backward),
}
"""How embeddings are counted."""
