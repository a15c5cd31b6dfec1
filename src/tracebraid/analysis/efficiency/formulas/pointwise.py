"""Elementwise ops: a number of operations for each element of the result; operands are broadcast.

Each arithmetic operation, comparison, or call of a function (`exp`, `sqrt`, `erf`, `tanh`) counts as one; a formula of
several counts its operations as written in the documentation of `torch.nn.functional`. torch.utils.flop_counter counts
no elementwise op; `with_flops` of torch.profiler counts one for each element of `add` and `mul`, as here.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest

from tracebraid.analysis.efficiency.element_types import BITS, promoted
from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES", "broadcast_of"]

_FLOPS = {
    (
        "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh erf erfc "
        "erfinv reciprocal floor ceil round trunc frac sign relu nan_to_num bitwise_not sgn "
        "threshold square lgamma digamma"
    ): (1, 1),
    "hardtanh relu6 leaky_relu": (1, 2),
    "sigmoid elu hardsigmoid celu selu": (1, 4),
    "silu gelu logit softplus hardswish log_sigmoid_forward": (1, 5),
    "mish": (1, 7),
    "tril triu": (1, 0),
    (
        "add sub rsub mul div floor_divide true_divide remainder fmod atan2 maximum minimum fmax fmin pow "
        "bitwise_and bitwise_or bitwise_xor __and__ __or__ xlogy clamp_min clamp_max"
    ): (2, 1),
    "clamp": (3, 2),
    "hypot logaddexp": (2, 4),
    "threshold_backward relu_backward hardtanh_backward leaky_relu_backward": (2, 1),
    "sigmoid_backward tanh_backward elu_backward": (2, 3),
    "hardswish_backward softplus_backward": (2, 4),
    "silu_backward": (2, 8),
    "gelu_backward": (2, 10),
    "addcmul addcdiv lerp": (3, 3),
    "where masked_fill": (3, 0),
}
"""Operands, and FLOPs for each element: `silu` is x / (1 + exp(-x)); backward, the gradient and what was saved."""

_TRUTHS = {"eq ne gt ge lt le logical_and logical_or logical_xor": 2, "isnan isinf isfinite logical_not": 1}
"""Operands of ops that write booleans, with a FLOP for each."""


def broadcast_of(tensors: list[Tensor]) -> tuple[int, ...]:
    """The shape that tensors are broadcast to.

    Raises:
        UnknownOperandError: their shapes do not fit.
    """
    backwards = [tensor.shape[::-1] for tensor in tensors]
    sizes = [set(column) - {1} for column in zip_longest(*backwards, fillvalue=1)]
    if any(len(size) > 1 for size in sizes):
        raise UnknownOperandError(sizes)
    return tuple(max(size, default=1) for size in sizes)[::-1]


def _elementwise(op: Operands, operands: int, flops: int, dtype: str = "") -> Cost:
    """The first arguments are operands; a number among them is none. An op whose name ends in `_` writes the first."""
    found = [tensor for i in range(operands) if (tensor := op.optional(i)) is not None]
    if not found:
        raise UnknownOperandError(op.name)
    if op.name.endswith("_") and not op.name.endswith("__"):
        out = op.tensor(0)
    else:
        out = Tensor(broadcast_of(found), dtype or _type_of(op, found))
    return cost(flops * out.numel, found, (Tensor(out.shape, out.dtype),))


def _type_of(op: Operands, found: list[Tensor]) -> str:
    values = found[1:] if op.name == "aten::where" else found[:1] if op.name == "aten::masked_fill" else found
    sized = [tensor.dtype for tensor in values if tensor.shape]
    dtype = promoted(sized, [tensor.dtype for tensor in values if not tensor.shape])
    divides = op.name in ("aten::div", "aten::true_divide")
    return "float" if divides and BITS.get(dtype) and not _is_float(dtype) else dtype


def _is_float(dtype: str) -> bool:
    return dtype in ("float", "double") or dtype.startswith("c10::")


def _dropout(op: Operands) -> Cost:
    """Writes the result and a mask of booleans; draws, compares, multiplies: 3 for each element."""
    x = op.tensor(0)
    return cost(3 * x.numel, (x,), (x.like(), x.like(dtype="bool")))


def _dropout_backward(op: Operands) -> Cost:
    grad, mask = op.tensor(0), op.tensor(1)
    return cost(2 * grad.numel, (grad, mask), (grad.like(),))


def _glu(op: Operands) -> Cost:
    """Half of the input is gated by the sigmoid of the other half: 5 for each element of the result."""
    x = op.tensor(0)
    return cost(5 * (x.numel // 2), (x,), (x.like((x.numel // 2,)),))


def _rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for names, (operands, flops) in _FLOPS.items():
        rule = Rule(OpFamily.POINTWISE, partial(_elementwise, operands=operands, flops=flops))
        found |= _of_both_forms(names, rule)
    for names, operands in _TRUTHS.items():
        formula = partial(_elementwise, operands=operands, flops=1, dtype="bool")
        found |= _of_both_forms(names, Rule(OpFamily.POINTWISE, formula))
    return found


def _of_both_forms(names: str, rule: Rule) -> dict[str, Rule]:
    """An op, and the form that writes its first operand."""
    return {f"aten::{name}{mark}": rule for name in names.split() for mark in ("", "_")}


RULES: dict[str, Rule] = {
    **_rules(),
    "aten::native_dropout": Rule(OpFamily.POINTWISE, _dropout),
    "aten::native_dropout_backward": Rule(OpFamily.POINTWISE, _dropout_backward),
    "aten::glu": Rule(OpFamily.POINTWISE, _glu),
}
"""How elementwise ops are counted."""
