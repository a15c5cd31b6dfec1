"""What a rule says of an op: floating-point operations, and the least bytes that it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tracebraid.analysis.efficiency.element_types import precision_of
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.device_peaks import Precision

__all__ = ["Cost", "Formula", "Rule", "bytes_of", "cost"]


@dataclass(frozen=True)
class Cost:
    """The cost of an op.

    Args:
        flops: floating-point operations, a multiply-add as two; None: unknown.
        size_bytes: bytes read and written at least, each tensor once; None: unknown.
        precision: in what it computes; None: unknown, or nothing.
        causal_flops: the operations less those that a causal mask leaves out; None: as many.
        repeated_flops: those that compute again what a forward pass did not keep, within the op.
    """

    flops: int | None
    size_bytes: int | None
    precision: Precision | None = None
    causal_flops: int | None = None
    repeated_flops: int = 0


Formula = Callable[[Operands], Cost]


@dataclass(frozen=True)
class Rule:
    """How ops of a name are counted.

    Args:
        family: what kind of work it is.
        formula: from operands to cost; raises `UnknownOperandError`.
        composite: it counts only where no op inside it is known to compute.
    """

    family: OpFamily
    formula: Formula
    composite: bool = False


def bytes_of(reads: Iterable[Tensor | None], writes: Iterable[Tensor | None]) -> int | None:
    """Bytes of tensors read and written; None where a type is not known.

    A tensor that is read counts what it stores, one that is written all its elements.
    """
    try:
        read = sum(tensor.size_bytes for tensor in reads if tensor is not None)
        return read + sum(tensor.bytes_of(tensor.numel) for tensor in writes if tensor is not None)
    except UnknownOperandError:
        return None


def cost(
    flops: int | None,
    reads: Iterable[Tensor | None],
    writes: Iterable[Tensor | None],
    computes: Tensor | None = None,
) -> Cost:
    """A cost of FLOPs and tensors.

    Args:
        flops: floating-point operations.
        reads: tensors read.
        writes: tensors written.
        computes: the operand whose type says in what matrix units compute; None: outside of these.
    """
    precision = Precision.VECTOR if flops else None
    if computes is not None:
        precision = precision_of(computes.dtype)
    return Cost(flops, bytes_of(reads, writes), precision)
