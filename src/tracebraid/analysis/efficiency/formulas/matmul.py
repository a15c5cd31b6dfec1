"""Matrix products: 2 m n k FLOPs, as `torch.utils.flop_counter` counts them; the bias of `addmm` adds none.

Source: `mm_flop`, `addmm_flop`, `bmm_flop`, `baddbmm_flop` and `_scaled_mm_flop` of torch.utils.flop_counter. Packed
int4 weights count 2 m n k as well; their bytes are those of the packed storage.
"""

from __future__ import annotations

from functools import partial
from math import prod

from tracebraid.analysis.efficiency.element_types import SCALAR_TYPES
from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_SCALED = "aten::_scaled_mm"
_SCALED_LISTS = "aten::_scaled_mm_v2"
_TYPE_OF_OUTPUT = {
    "aten::mm": 2,
    "aten::bmm": 2,
    "aten::addmm": 3,
    "aten::baddbmm": 3,
    _SCALED: 6,
    _SCALED_LISTS: 9,
}
"""Position of the type of the output, in the forms that have it."""
_PER_ELEMENT = {"c10::Float4_e2m1fn_x2": 2}
"""Numbers in an element along the dimension that is summed, where there are several."""
_INT4_ROWS = 8
"""Rows of the weight in one tile of `_weight_int4pack_mm` on CUDA: the first size of the packed weight is n / 8."""


def _product(op: Operands, first: int, second: int, added: int | None = None) -> Cost:
    """(batch..., m, k) x (batch..., k, n), with batches broadcast, and a tensor that is added."""
    a, b = op.tensor(first), op.tensor(second)
    if not a.shape or not b.shape:
        raise UnknownOperandError(op.name)
    rows = a.shape if len(a.shape) > 1 else (1, *a.shape)
    columns = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    if rows[-1] != columns[-2]:
        raise UnknownOperandError(op.name)
    batch = _broadcast(rows[:-2], columns[:-2])
    out = (*batch, *rows[-2:-1][: len(a.shape) - 1], *columns[-1:][: len(b.shape) - 1])
    flops = 2 * prod(batch) * rows[-2] * columns[-1] * rows[-1] * _PER_ELEMENT.get(a.dtype, 1)
    addend = None if added is None or _is_left_out(op, added) else op.optional(added)
    scales = _scales(op)
    return cost(flops, (a, b, addend, *scales), (a.like(out, _out_type(op, a)),), computes=a)


def _scales(op: Operands) -> tuple[Tensor | None, ...]:
    """Scales of fp8 and fp4, each a tensor or a list of tensors."""
    if op.name == _SCALED_LISTS:
        return (*op.tensors(2), *op.tensors(5))
    return (op.optional(2), op.optional(3)) if op.name == _SCALED else ()


def _is_left_out(op: Operands, added: int) -> bool:
    """Whether `beta` is zero: what would be added is then not read."""
    beta = 3 if _stated_type(op) is None else 4
    return added == 0 and op.has_scalar(beta) and op.scalars[beta].strip("0.") == ""


def _out_type(op: Operands, a: Tensor) -> str:
    """Some products name the type of their output; `_int_mm` writes int32."""
    stated = _stated_type(op)
    if stated is not None:
        return SCALAR_TYPES.get(op.integer(stated), "")
    return "int" if op.name == "aten::_int_mm" else a.dtype


def _stated_type(op: Operands) -> int | None:
    """The position of the type of the output, where the op was called with one."""
    at = _TYPE_OF_OUTPUT.get(op.name)
    if at is None or not op.has_scalar(at):
        return None
    with_beta = op.name in ("aten::addmm", "aten::baddbmm")
    return at if not with_beta or (len(op.values) > at + 2 and op.has_scalar(at + 2)) else None


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    width = max(len(a), len(b))
    first, second = ((1,) * (width - len(sizes)) + sizes for sizes in (a, b))
    return tuple(max(sizes) if min(sizes) else 0 for sizes in zip(first, second, strict=True))


def _batches_added(op: Operands) -> Cost:
    """`addbmm`: the products of all batches are added into one matrix."""
    added, a, b = op.tensor(0), op.tensor(1), op.tensor(2)
    if len(a.shape) != 3 or len(b.shape) != 3:
        raise UnknownOperandError(op.name)
    batch, m, k = a.shape
    n = b.shape[2]
    return cost(2 * batch * m * n * k, (a, b, added), (a.like((m, n)),), computes=a)


def _linear(op: Operands) -> Cost:
    """(..., k) x (n, k) transposed, with a bias: 2 (...) k n."""
    a, weight, bias = op.tensor(0), op.tensor(1), op.optional(2)
    if not a.shape or not weight.shape or a.shape[-1] != weight.shape[-1]:
        raise UnknownOperandError(op.name)
    out = a.like((*a.shape[:-1], *weight.shape[:-1]))
    return cost(2 * out.numel * a.shape[-1], (a, weight, bias), (out,), computes=a)


def _packed(op: Operands, weight: int, rows: int, scales: int) -> Cost:
    """(m, k) x a packed weight of n rows, each `rows` to the first size: 2 m n k."""
    a, b = op.tensor(0), op.tensor(weight)
    if len(a.shape) != 2 or not b.shape:
        raise UnknownOperandError(op.name)
    m, k = a.shape
    n = b.shape[0] * rows
    return cost(2 * m * n * k, (a, b, op.optional(scales)), (a.like((m, n)),), computes=a)


def _grouped(op: Operands) -> Cost:
    """Groups of rows, each with a matrix of its own: a row meets one matrix, so that groups multiply nothing.

    (m, k) x (g, k, n), (g, m, k) x (k, n), (g, m, k) x (g, k, n), or (m, k) x (k, n) with k split: 2 m k n, times g
    where both have it.
    """
    a, b = op.tensor(0), op.tensor(1)
    if not {len(a.shape), len(b.shape)} <= {2, 3}:
        raise UnknownOperandError(op.name)
    groups = a.shape[0] if len(a.shape) == len(b.shape) == 3 else 1
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    split = op.tensor(2).numel if len(a.shape) == len(b.shape) == 2 else 1
    dtype = a.dtype if op.name == "aten::_grouped_mm" else "c10::BFloat16"
    out = a.like((groups * split, m, n), dtype)
    flops = 2 * groups * m * k * n * _PER_ELEMENT.get(a.dtype, 1)
    return cost(flops, (a, b), (out,), computes=a)


def _scaled_grouped(op: Operands, offsets: int) -> Cost:
    """The same with scales between the factors and the offsets of the groups."""
    values = (*op.values[:2], *op.values[offsets : offsets + 1])
    return _grouped(Operands(op.name, values, op.scalars))


def _written_first(op: Operands) -> Cost:
    """vLLM's products, whose first argument is the output."""
    out, a = op.tensor(0), op.tensor(1)
    if not out.shape or not a.shape:
        raise UnknownOperandError(op.name)
    return cost(2 * out.numel * a.shape[-1], (a, op.tensor(2)), (out,), computes=a)


def _outer(op: Operands) -> Cost:
    """The outer product of two vectors: m n."""
    a, b = op.tensor(0), op.tensor(1)
    return cost(a.numel * b.numel, (a, b), (a.like((a.numel, b.numel)),))


def _rule(first: int, second: int, added: int | None = None, composite: bool = False) -> Rule:
    formula = partial(_product, first=first, second=second, added=added)
    return Rule(OpFamily.MATMUL, formula, composite)


_PAIR, _WITH_ADDED = _rule(0, 1), _rule(1, 2, added=0)

RULES: dict[str, Rule] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::vdot", "aten::_int_mm"), _PAIR),
    _SCALED: _rule(0, 1, added=4),
    _SCALED_LISTS: _rule(0, 1, added=8),
    **dict.fromkeys(
        [
            f"aten::{name}{mark}"
            for name in ("addmm", "baddbmm", "addmv", "_addmm_activation")
            for mark in ("", "_")
        ],
        _WITH_ADDED,
    ),
    "aten::addbmm": Rule(OpFamily.MATMUL, _batches_added),
    "aten::addbmm_": Rule(OpFamily.MATMUL, _batches_added),
    "aten::ger": Rule(OpFamily.MATMUL, _outer),
    "aten::linear": Rule(OpFamily.MATMUL, _linear, composite=True),
    "aten::mkldnn_linear": Rule(OpFamily.MATMUL, _linear),
    "mkldnn::_linear_pointwise": Rule(OpFamily.MATMUL, _linear),
    "aten::matmul": _rule(0, 1, composite=True),
    "aten::_weight_int4pack_mm": Rule(OpFamily.MATMUL, partial(_packed, weight=1, rows=_INT4_ROWS, scales=3)),
    "aten::_weight_int4pack_mm_for_cpu": Rule(OpFamily.MATMUL, partial(_packed, weight=1, rows=1, scales=3)),
    "aten::_weight_int8pack_mm": Rule(OpFamily.MATMUL, partial(_packed, weight=1, rows=1, scales=2)),
    "aten::_grouped_mm": Rule(OpFamily.MATMUL, _grouped),
    "aten::_scaled_grouped_mm": Rule(OpFamily.MATMUL, partial(_scaled_grouped, offsets=4)),
    "aten::_scaled_grouped_mm_v2": Rule(OpFamily.MATMUL, partial(_scaled_grouped, offsets=8)),
    "_C::cutlass_scaled_mm": Rule(OpFamily.MATMUL, _written_first),
}
"""How matrix products are counted; `linear` and `matmul` by the product inside them, where the trace has it."""
