"""Softmax: five operations for each element (maximum, subtract, exp, add, divide), four backward.

The logarithm of softmax takes as many; the logarithm itself, of one number for each row, is left aside.
"""

from __future__ import annotations

from tracebraid.analysis.efficiency.element_types import SCALAR_TYPES
from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_FORWARD, _BACKWARD = 5, 4


def _softmax(op: Operands) -> Cost:
    """self, dim, half_to_float: the last makes a float of a half."""
    x = op.tensor(0)
    widens = op.has_scalar(2) and op.flags(2)[0]
    return cost(_FORWARD * x.numel, (x,), (x.like(dtype="float" if widens else x.dtype),))


def _backward(op: Operands) -> Cost:
    """gradient, output, dim, type of the input."""
    grad, out = op.tensor(0), op.tensor(1)
    dtype = SCALAR_TYPES.get(op.integer(3), "") if op.has_scalar(3) else grad.dtype
    return cost(_BACKWARD * grad.numel, (grad, out), (grad.like(dtype=dtype),))


RULES: dict[str, Rule] = {
    "aten::_softmax": Rule(OpFamily.SOFTMAX, _softmax),
    "aten::_log_softmax": Rule(OpFamily.SOFTMAX, _softmax),
    "aten::_softmax_backward_data": Rule(OpFamily.SOFTMAX, _backward),
    "aten::_log_softmax_backward_data": Rule(OpFamily.SOFTMAX, _backward),
}
"""How softmax is counted; `softmax` and `log_softmax` by these inside them."""
