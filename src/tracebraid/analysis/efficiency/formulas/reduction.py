"""Reductions and scans: an operation for each element that goes in, two where it is squared or multiplied as well.

`mean` adds a division for each element of the result; `var` takes four for each element (subtract, square, add, and the
sum for the mean).
"""

from __future__ import annotations

from functools import partial
from math import prod

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.formulas.pointwise import broadcast_of
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_WITH_INDEX = 3
"""Arguments of the form of `max` and `min` that reduces a dimension: self, dim, keepdim."""


def _reduce(op: Operands, per_element: int, per_result: int = 0, dims: int = 1, dtype: str = "") -> Cost:
    """Reads the input, writes the result; `max` and `min` of two tensors are elementwise.

    Args:
        op: the input comes first.
        per_element: operations for each element of the input.
        per_result: operations for each element of the result.
        dims: position of the dimensions that are reduced.
        dtype: type of the result; empty: that of the input, booleans and integers being summed as `long int`.
    """
    x, other = op.tensor(0), op.optional(1)
    if other is not None:
        shape = broadcast_of([x, other])
        return cost(per_element * prod(shape), (x, other), (x.like(shape),))
    shape = _reduced(op, x, dims)
    out = Tensor(shape, dtype or _sum_type(op, x))
    extra = (out.like(dtype="long int"),) if op.name in ("aten::max", "aten::min") and _has_index(op) else ()
    return cost(per_element * x.numel + per_result * prod(shape), (x,), (out, *extra))


def _has_index(op: Operands) -> bool:
    return len(op.values) >= _WITH_INDEX


def _sum_type(op: Operands, x: Tensor) -> str:
    sums = op.name in ("aten::sum", "aten::prod", "aten::cumsum", "aten::cumprod")
    is_integer = bool(x.dtype) and not x.dtype.startswith("c10::") and x.dtype not in ("float", "double")
    return "long int" if sums and is_integer else x.dtype


def _reduced(op: Operands, x: Tensor, dims: int) -> tuple[int, ...]:
    """The shape of the result: `sum(self, dtype)` and its like reduce all; no dimensions, or empty ones, do, too."""
    if len(op.values) <= dims + 1 or (not op.has_scalar(dims) and any(op.scalars)):
        return ()
    if not op.has_scalar(dims):
        return op.output(0).shape
    axes = {axis + len(x.shape) if axis < 0 else axis for axis in op.ints(dims)}
    axes = axes or set(range(len(x.shape)))
    if not x.shape:
        return ()
    if not all(0 <= axis < len(x.shape) for axis in axes):
        raise UnknownOperandError(op.name)
    return tuple(size for axis, size in enumerate(x.shape) if axis not in axes)


def _scan(op: Operands) -> Cost:
    """A running sum: as many results as elements."""
    x = op.tensor(0)
    return cost(x.numel, (x,), (x.like(dtype=_sum_type(op, x)),))


def _topk(op: Operands) -> Cost:
    """Values and their positions; comparisons are not counted."""
    x, k = op.tensor(0), op.integer(1)
    axis = op.integer(2) if op.has_scalar(2) else -1
    if not x.shape or k < 0 or not -len(x.shape) <= axis < len(x.shape):
        raise UnknownOperandError(op.name)
    axis %= len(x.shape)
    shape = tuple(k if i == axis else size for i, size in enumerate(x.shape))
    return cost(0, (x,), (x.like(shape), x.like(shape, "long int")))


def _sort(op: Operands) -> Cost:
    x = op.tensor(0)
    return cost(0, (x,), (x.like(), x.like(dtype="long int")))


def _rule(per_element: int, per_result: int = 0, dims: int = 1, dtype: str = "") -> Rule:
    formula = partial(_reduce, per_element=per_element, per_result=per_result, dims=dims, dtype=dtype)
    return Rule(OpFamily.REDUCTION, formula)


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("aten::sum", "aten::nansum", "aten::prod", "aten::amax", "aten::amin", "aten::max", "aten::min"),
        _rule(1),
    ),
    "aten::mean": _rule(1, per_result=1),
    **dict.fromkeys(("aten::var", "aten::std"), _rule(4, per_result=1)),
    "aten::var_mean": _rule(4, per_result=2),
    "aten::logsumexp": _rule(3, per_result=1),
    **dict.fromkeys(("aten::norm", "aten::linalg_vector_norm"), _rule(2, per_result=1, dims=2)),
    **dict.fromkeys(("aten::argmax", "aten::argmin"), _rule(1, dtype="long int")),
    **dict.fromkeys(("aten::all", "aten::any"), _rule(1, dtype="bool")),
    **dict.fromkeys(("aten::cumsum", "aten::cumprod"), Rule(OpFamily.REDUCTION, _scan)),
    "aten::topk": Rule(OpFamily.REDUCTION, _topk),
    "aten::sort": Rule(OpFamily.REDUCTION, _sort),
}
"""How reductions are counted."""
