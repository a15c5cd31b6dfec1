"""Losses: operations for each element, from the formulas as `torch.nn` documents them, and one to reduce each.

The reduction argument is 0 (none), 1 (mean) or 2 (sum): with the first the result is as large as the input.
"""

from __future__ import annotations

from functools import partial

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_NO_REDUCTION = 0


def _pair(op: Operands, flops: int, reduction: int) -> Cost:
    """input, target, and weights before the reduction, where there are any."""
    x, target = op.tensor(0), op.tensor(1)
    weights = [op.optional(i) for i in range(2, reduction)]
    keeps = op.integer(reduction) == _NO_REDUCTION
    return cost((flops + (not keeps)) * x.numel, (x, target, *weights), (x.like(None if keeps else ()),))


def _pair_backward(op: Operands, flops: int, reduction: int) -> Cost:
    """gradient, input, target, and weights."""
    grad, x, target = op.tensor(0), op.tensor(1), op.tensor(2)
    weights = [op.optional(i) for i in range(3, reduction)]
    return cost(flops * x.numel, (grad, x, target, *weights), (x.like(),))


def _nll(op: Operands) -> Cost:
    """input, target, weight, reduction: a number of each row is picked; writes the loss and the sum of weights."""
    x, target, weight = op.tensor(0), op.tensor(1), op.optional(2)
    keeps = op.integer(3) == _NO_REDUCTION
    picked = x.like(target.shape)
    out = x.like(target.shape if keeps else ())
    return cost(2 * target.numel, (target, picked, weight), (out, x.like(())))


def _nll_backward(op: Operands) -> Cost:
    """gradient, input, target, weight, reduction, ignore_index, total weight: writes a gradient of the input's size."""
    grad, x, target = op.tensor(0), op.tensor(1), op.tensor(2)
    return cost(2 * target.numel, (grad, target, op.optional(3), op.optional(6)), (x.like(),))


def _rules() -> dict[str, Rule]:
    """Each with the FLOPs of an element, forward and backward, and the position of the reduction, forward."""
    table = {
        "mse_loss": (2, 3, 2),
        "smooth_l1_loss": (5, 4, 2),
        "huber_loss": (5, 4, 2),
        "binary_cross_entropy": (6, 5, 3),
        "soft_margin_loss": (4, 5, 2),
    }
    found: dict[str, Rule] = {}
    for name, (forward, backward, reduction) in table.items():
        found[f"aten::{name}"] = Rule(OpFamily.LOSS, partial(_pair, flops=forward, reduction=reduction))
        formula = partial(_pair_backward, flops=backward, reduction=reduction + 1)
        found[f"aten::{name}_backward"] = Rule(OpFamily.LOSS, formula)
    return found


RULES: dict[str, Rule] = {
    **_rules(),
    **dict.fromkeys(("aten::nll_loss_forward", "aten::nll_loss2d_forward"), Rule(OpFamily.LOSS, _nll)),
    **dict.fromkeys(
        ("aten::nll_loss_backward", "aten::nll_loss2d_backward"), Rule(OpFamily.LOSS, _nll_backward)
    ),
}
"""How losses are counted; cross entropy and those with logits by the ops inside them."""
