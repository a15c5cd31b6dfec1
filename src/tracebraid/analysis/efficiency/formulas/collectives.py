"""Collectives: what a rank's memory reads and writes, and the additions that a rank does at least.

An all-reduce or reduce-scatter of n elements over w ranks takes n (w - 1) additions, n (w - 1) / w for each rank: so do
a ring, and kernels in two stages; kernels in one stage do w times as many. Bytes are the input's and the output's; what
goes over the wire is another question. The op is `record_param_comms` with its arguments, or one of a library's own.
"""

from __future__ import annotations

from functools import partial

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["COLLECTIVE_PREFIX", "RULES"]

COLLECTIVE_PREFIX = "collective:"
"""Stands before the name of a collective whose sizes its arguments give: the input's, then the output's."""


def _reduce(op: Operands, first: int = 0) -> Cost:
    """Reads as many elements as it writes, and adds."""
    tensors = op.tensors(first)
    return cost(_additions(op, sum(tensor.numel for tensor in tensors)), tensors, tensors)


def _additions(op: Operands, elements: int) -> int | None:
    if not op.group_size or op.group_size < 1:
        return None
    return elements * (op.group_size - 1) // op.group_size


def _stated(op: Operands, adds: bool) -> Cost:
    """By its arguments: elements in and out."""
    given, written = op.tensor(0), op.tensor(1)
    return cost(_additions(op, given.numel) if adds else 0, (given,), (written,))


def _exchange(op: Operands) -> Cost:
    """Reads and writes what it is given; where it writes more or less (gather, uneven splits), a trace does not say."""
    tensors = op.tensors(0)
    return cost(0, tensors, tensors)


def _gather(op: Operands) -> Cost:
    """All ranks' inputs, one after the other."""
    tensors = op.tensors(0)
    size = op.group_size
    writes = [Tensor((tensor.numel * (size or 0),), tensor.dtype if size else "") for tensor in tensors]
    return cost(0, tensors, writes)


_REDUCING = (
    "allreduce all_reduce allreduce_coalesced reduce reduce_scatter _reduce_scatter_base "
    "reduce_scatter_tensor_coalesced"
)
_MOVING = (
    "all_gather allgather _allgather_base all_gather_into_tensor_coalesced all_gather_object broadcast "
    "all_to_all all_to_allv all_to_all_single send recv gather scatter"
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("nccl:all_reduce", "nccl:reduce", "gloo:all_reduce", "gloo:reduce"),
        Rule(OpFamily.COLLECTIVE, _reduce),
    ),
    **dict.fromkeys(
        ("nccl:broadcast", "nccl:all_to_all", "gloo:broadcast", "nccl:send"),
        Rule(OpFamily.COLLECTIVE, _exchange),
    ),
    **dict.fromkeys(
        ("nccl:_all_gather_base", "nccl:all_gather", "gloo:all_gather"), Rule(OpFamily.COLLECTIVE, _gather)
    ),
    "_C_custom_ar::all_reduce": Rule(OpFamily.COLLECTIVE, partial(_reduce, first=1)),
    "_C_custom_ar::qr_all_reduce": Rule(OpFamily.COLLECTIVE, partial(_reduce, first=1)),
    "sgl_kernel::all_reduce": Rule(OpFamily.COLLECTIVE, partial(_reduce, first=1)),
    **{
        f"{COLLECTIVE_PREFIX}{name}": Rule(OpFamily.COLLECTIVE, partial(_stated, adds=True))
        for name in _REDUCING.split()
    },
    **{
        f"{COLLECTIVE_PREFIX}{name}": Rule(OpFamily.COLLECTIVE, partial(_stated, adds=False))
        for name in _MOVING.split()
    },
}
"""How collectives are counted."""
