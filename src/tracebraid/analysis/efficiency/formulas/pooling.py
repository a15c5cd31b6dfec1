"""Pooling: an operation for each element of a window and each result; backward, one for each gradient that goes in.

Output sizes: documentation of `torch.nn.MaxPool2d` and `torch.nn.AvgPool2d`; adaptive pooling reads each element once.
"""

from __future__ import annotations

from functools import partial
from math import prod

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]


def _pool(op: Operands, dilation: int | None, ceil: int, with_positions: bool) -> Cost:
    """self, kernel, stride (empty: the kernel), padding, then what the op has of its own."""
    x = op.tensor(0)
    kernel = op.ints(1)
    rank = len(kernel)
    if not 0 < rank < len(x.shape):
        raise UnknownOperandError(op.name)
    stride = op.ints(2) if op.has_scalar(2) and op.scalars[2] != "[]" else kernel
    padding = op.ints(3)
    steps = [1] * rank if dilation is None else op.ints(dilation)
    if not len(stride) == len(padding) == len(steps) == rank or min(stride) < 1:
        raise UnknownOperandError(op.name)
    up = op.flags(ceil)[0]
    sizes = [
        _size(x.shape[i - rank] + 2 * padding[i] - steps[i] * (kernel[i] - 1) - 1, stride[i], up)
        for i in range(rank)
    ]
    out = x.like((*x.shape[:-rank], *sizes))
    writes = (out, out.like(dtype="long int")) if with_positions else (out,)
    return cost(out.numel * prod(kernel), (x,), writes)


def _size(reach: int, stride: int, up: bool) -> int:
    return max((reach + (stride - 1 if up else 0)) // stride + 1, 0)


def _adaptive(op: Operands) -> Cost:
    x, sizes = op.tensor(0), op.ints(1)
    if not 0 < len(sizes) < len(x.shape):
        raise UnknownOperandError(op.name)
    out = x.like((*x.shape[: -len(sizes)], *sizes))
    return cost(x.numel + out.numel, (x,), (out,))


def _backward(op: Operands, positions: int | None) -> Cost:
    """Reads the gradient, and positions where it has them; writes a gradient as large as the input."""
    grad, x = op.tensor(0), op.tensor(1)
    saved: Tensor | None = None if positions is None else op.optional(positions)
    return cost(max(grad.numel, x.numel if positions is None else 0), (grad, saved), (x.like(),))


def _rule(dilation: int | None, ceil: int, with_positions: bool) -> Rule:
    return Rule(OpFamily.POOLING, partial(_pool, dilation=dilation, ceil=ceil, with_positions=with_positions))


RULES: dict[str, Rule] = {
    "aten::max_pool2d_with_indices": _rule(4, 5, True),
    "aten::max_pool3d_with_indices": _rule(4, 5, True),
    "aten::avg_pool2d": _rule(None, 4, False),
    "aten::avg_pool3d": _rule(None, 4, False),
    "aten::_adaptive_avg_pool2d": Rule(OpFamily.POOLING, _adaptive),
    "aten::_adaptive_avg_pool3d": Rule(OpFamily.POOLING, _adaptive),
    "aten::max_pool2d_with_indices_backward": Rule(OpFamily.POOLING, partial(_backward, positions=7)),
    "aten::avg_pool2d_backward": Rule(OpFamily.POOLING, partial(_backward, positions=None)),
    "aten::_adaptive_avg_pool2d_backward": Rule(OpFamily.POOLING, partial(_backward, positions=None)),
}
"""How pooling is counted."""
