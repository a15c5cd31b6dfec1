"""Copies, fills, concatenations and random numbers: no FLOPs; what is read and what is written.

A kernel that Triton made counts each tensor among its arguments once; its FLOPs are not known.
"""

from __future__ import annotations

from tracebraid.analysis.efficiency.element_types import promoted
from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, bytes_of, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES", "TRITON", "TRITON_PREFIX"]

TRITON_PREFIX = "triton_"
"""How the names of kernels begin that Inductor makes with Triton."""


def _copy(op: Operands) -> Cost:
    """`copy_(to, from)`."""
    return cost(0, (op.tensor(1),), (op.tensor(0),))


def _fill(op: Operands) -> Cost:
    """An op that only writes the tensor that it is given."""
    return cost(0, (), (op.tensor(0),))


def _read(op: Operands) -> Cost:
    return cost(0, (op.tensor(0),), ())


def _new(op: Operands) -> Cost:
    """A new tensor, whose shape only the Execution Trace has."""
    return cost(0, (), (op.output(0),))


def _cat(op: Operands) -> Cost:
    """All elements are read and written once; a tensor that is expanded is stored once."""
    tensors = op.tensors(0)
    dtype = promoted([tensor.dtype for tensor in tensors], [])
    numel = sum(tensor.numel for tensor in tensors)
    return cost(0, tensors, (Tensor((numel,), dtype),))


def _repeat(op: Operands) -> Cost:
    """`repeat`: an element is read once and written as often as the product of the numbers says."""
    x, times = op.tensor(0), 1
    for number in op.ints(1):
        times *= number
    if times < 0:
        raise UnknownOperandError(op.name)
    return cost(0, (x,), (x.like((x.numel * times,)),))


def _same(op: Operands) -> Cost:
    x = op.tensor(0)
    return cost(0, (x,), (x.like(),))


def _list_copy(op: Operands) -> Cost:
    """`_foreach_copy_(to, from)`."""
    return cost(0, op.tensors(1), op.tensors(0))


def _list_fill(op: Operands) -> Cost:
    return cost(0, (), op.tensors(0))


def _triton(op: Operands) -> Cost:
    return Cost(None, bytes_of([value for value in op.values if isinstance(value, Tensor)], ()))


TRITON = Rule(OpFamily.FUSED, _triton)

_FILLS = "fill_ zero_ uniform_ normal_ random_ exponential_ bernoulli_ log_normal_ geometric_ cauchy_"
_NEW = "arange randint randperm eye linspace full tril_indices triu_indices"

RULES: dict[str, Rule] = {
    "aten::copy_": Rule(OpFamily.COPY, _copy),
    **{f"aten::{name}": Rule(OpFamily.COPY, _fill) for name in _FILLS.split()},
    **{f"aten::{name}": Rule(OpFamily.COPY, _new, composite=True) for name in _NEW.split()},
    "aten::_local_scalar_dense": Rule(OpFamily.COPY, _read),
    "aten::cat": Rule(OpFamily.COPY, _cat),
    "aten::_cat": Rule(OpFamily.COPY, _cat),
    "aten::repeat": Rule(OpFamily.COPY, _repeat, composite=True),
    "aten::flip": Rule(OpFamily.COPY, _same),
    "aten::roll": Rule(OpFamily.COPY, _same),
    "aten::_foreach_copy_": Rule(OpFamily.COPY, _list_copy),
    "aten::_foreach_zero_": Rule(OpFamily.COPY, _list_fill),
}
"""How copies are counted; `to`, `clone`, `contiguous` and `stack` by the copy inside them."""
