"""FBGEMM's quantisation and permutation for recommenders: what is read and what is written, and no FLOPs.

Source: FBGEMM's documentation of its ops. A row that is quantised to fp8 is padded to 4 elements, and two floats follow
it. Its embedding tables are not counted: shapes do not say how long their rows are.
"""

from __future__ import annotations

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_ROW_TAIL = 8
"""Bytes of the two floats behind a quantised row."""
_ROW_ALIGNMENT = 4
_BYTE = "unsigned char"


def _to_rows(op: Operands) -> Cost:
    """Floats to rows of fp8."""
    x = op.tensor(0)
    if not x.shape:
        raise UnknownOperandError(op.name)
    width = -(-x.shape[-1] // _ROW_ALIGNMENT) * _ROW_ALIGNMENT + _ROW_TAIL
    return cost(0, (x,), (x.like((*x.shape[:-1], width), _BYTE),))


def _from_rows(op: Operands) -> Cost:
    """Rows of fp8 to floats; padding is taken as none."""
    x = op.tensor(0)
    if not x.shape or x.shape[-1] < _ROW_TAIL:
        raise UnknownOperandError(op.name)
    return cost(0, (x,), (x.like((*x.shape[:-1], x.shape[-1] - _ROW_TAIL), "float"),))


def _to_bytes(op: Operands) -> Cost:
    x = op.tensor(0)
    return cost(0, (x,), (x.like(dtype=_BYTE),))


def _from_bytes(op: Operands) -> Cost:
    x = op.tensor(0)
    return cost(0, (x,), (x.like(dtype="float"),))


def _permuted(op: Operands) -> Cost:
    """As many elements as before, in another order; with the lists of offsets and features."""
    x = op.tensor(0)
    return cost(0, (x, *(op.optional(i) for i in range(1, 5))), (x.like(),))


RULES: dict[str, Rule] = {
    "fbgemm::FloatToFP8RowwiseQuantized": Rule(OpFamily.COPY, _to_rows),
    "fbgemm::FP8RowwiseQuantizedToFloat": Rule(OpFamily.COPY, _from_rows),
    "fbgemm::FloatToHFP8Quantized": Rule(OpFamily.COPY, _to_bytes),
    "fbgemm::HFP8QuantizedToFloat": Rule(OpFamily.COPY, _from_bytes),
    "fbgemm::permute_pooled_embs": Rule(OpFamily.INDEXING, _permuted),
    "fbgemm::permute_pooled_embs_auto_grad": Rule(OpFamily.INDEXING, _permuted),
}
"""How these are counted."""
