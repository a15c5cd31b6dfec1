"""Optimizers: operations for each parameter, from the algorithms in the documentation of `torch.optim`.

AdamW: 1 to decay, 3 for the first moment, 4 for the second, 3 for the denominator, 3 to update: 14; Adam adds the decay
to the gradient instead, with 2: 15. SGD: 2, 2 more for decay, 3 for momentum. Adagrad: 3 for the sum, 2 for the
denominator, 3 to update. The types of lists stand in the Execution Trace alone, but for a tensor beside them.
"""

from __future__ import annotations

from functools import partial

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_ADAMW, _ADAM, _ADAGRAD = 14, 15, 8
_SGD, _SGD_DECAY, _SGD_MOMENTUM = 2, 2, 3

_ELEMENTWISE = {
    "sqrt reciprocal neg exp log abs sign rsqrt": (1, 1),
    "sigmoid": (1, 4),
    "add sub mul div pow maximum minimum clamp_max clamp_min": (2, 1),
    "addcmul addcdiv": (3, 3),
}
"""Operands, and FLOPs for each element."""


def _foreach(op: Operands, lists: int, flops: int) -> Cost:
    """An elementwise op on each tensor of a list; further operands are lists as long, a tensor, or a number."""
    first = op.tensors(0)
    others = [tensor for i in range(1, lists) if _has_tensors(op, i) for tensor in op.tensors(i)]
    numel = sum(tensor.numel for tensor in first)
    return cost(flops * numel, (*first, *others), [tensor.like() for tensor in first])


def _lerp(op: Operands) -> Cost:
    """self, ends, weight: 3 for each element; the weight may be a list."""
    return _foreach(op, 3, 3)


def _norm(op: Operands) -> Cost:
    """The norm of each tensor: 2 for each element."""
    tensors = op.tensors(0)
    return cost(2 * sum(tensor.numel for tensor in tensors), tensors, [tensor.like(()) for tensor in tensors])


def _has_tensors(op: Operands, position: int) -> bool:
    return 0 <= position < len(op.values) and op.values[position] is not None


def _fused(op: Operands, flops: int, states: tuple[int, ...]) -> Cost:
    """self, grads, then lists of states: all are read; parameters and states are written."""
    parameters = op.tensors(0)
    kept: list[Tensor] = [tensor for i in states if _has_tensors(op, i) for tensor in op.tensors(i)]
    numel = sum(tensor.numel for tensor in parameters)
    writes = [tensor.like() for tensor in (*parameters, *kept)]
    return cost(flops * numel, (*parameters, *op.tensors(1), *kept), writes)


def _sgd(op: Operands) -> Cost:
    """self, grads, momentum buffers, weight_decay: buffers are there with momentum only."""
    flops = _SGD + (_SGD_MOMENTUM if _has_tensors(op, 2) and op.tensors(2) else 0)
    decays = op.has_scalar(3) and op.scalars[3].strip("0.") != ""
    return _fused(op, flops + (_SGD_DECAY if decays else 0), (2,))


def _foreach_rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for names, (lists, flops) in _ELEMENTWISE.items():
        rule = Rule(OpFamily.OPTIMIZER, partial(_foreach, lists=lists, flops=flops))
        for name in names.split():
            found |= {f"aten::_foreach_{name}": rule, f"aten::_foreach_{name}_": rule}
    return found


RULES: dict[str, Rule] = {
    **_foreach_rules(),
    **dict.fromkeys(("aten::_foreach_lerp", "aten::_foreach_lerp_"), Rule(OpFamily.OPTIMIZER, _lerp)),
    "aten::_foreach_norm": Rule(OpFamily.OPTIMIZER, _norm),
    "aten::_fused_adamw_": Rule(OpFamily.OPTIMIZER, partial(_fused, flops=_ADAMW, states=(2, 3, 4))),
    "aten::_fused_adam_": Rule(OpFamily.OPTIMIZER, partial(_fused, flops=_ADAM, states=(2, 3, 4))),
    "aten::_fused_adagrad_": Rule(OpFamily.OPTIMIZER, partial(_fused, flops=_ADAGRAD, states=(2,))),
    "aten::_fused_sgd_": Rule(OpFamily.OPTIMIZER, _sgd),
}
"""How optimizers are counted."""
