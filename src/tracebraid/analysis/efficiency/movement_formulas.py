"""Ops that move elements: copies, views, gathering and scattering, collectives; and the kernels of Triton.

They cost bytes; FLOPs are those of additions.
"""

from __future__ import annotations

from functools import partial

from tracebraid.analysis.efficiency.operands import (
    Cost,
    Operands,
    Rule,
    Tensor,
    UnknownOperandError,
    bytes_of,
    cost,
    promoted,
)
from tracebraid.model.answers.efficiency import OpFamily

TRITON_PREFIX = "triton_"
"""Prefix of kernels that Inductor generates with Triton."""
_TRITON_POINTWISE = "triton_poi_"


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


def _permuted_copy(op: Operands) -> Cost:
    x = op.tensor(0)
    return cost(0, (x,), (x.like(),))


def _list_copy(op: Operands) -> Cost:
    """`_foreach_copy_(to, from)`."""
    return cost(0, op.tensors(1), op.tensors(0))


def _list_fill(op: Operands) -> Cost:
    return cost(0, (), op.tensors(0))


def _triton(op: Operands) -> Cost:
    """The only tensor that is as large as a pointwise kernel's result is read and written: it works in place."""
    tensors = [value for value in op.values if isinstance(value, Tensor)]
    most = max((tensor.numel for tensor in tensors), default=0)
    largest = [tensor for tensor in tensors if tensor.numel == most]
    overwrites = op.name.startswith(_TRITON_POINTWISE) and len(largest) == 1
    return Cost(None, bytes_of(tensors, largest if overwrites else ()))


TRITON = Rule(OpFamily.FUSED, _triton)

_FILLS = "fill_ zero_ uniform_ normal_ random_ exponential_ bernoulli_ log_normal_ geometric_ cauchy_"
_NEW = "arange randint randperm eye linspace full tril_indices triu_indices"

COPY_RULES: dict[str, Rule] = {
    "aten::copy_": Rule(OpFamily.COPY, _copy),
    **{f"aten::{name}": Rule(OpFamily.COPY, _fill) for name in _FILLS.split()},
    **{f"aten::{name}": Rule(OpFamily.COPY, _new, composite=True) for name in _NEW.split()},
    "aten::_local_scalar_dense": Rule(OpFamily.COPY, _read),
    "aten::cat": Rule(OpFamily.COPY, _cat),
    "aten::_cat": Rule(OpFamily.COPY, _cat),
    "aten::repeat": Rule(OpFamily.COPY, _repeat, composite=True),
    "aten::flip": Rule(OpFamily.COPY, _permuted_copy),
    "aten::roll": Rule(OpFamily.COPY, _permuted_copy),
    "aten::_foreach_copy_": Rule(OpFamily.COPY, _list_copy),
    "aten::_foreach_zero_": Rule(OpFamily.COPY, _list_fill),
}
"""Formulas of copies; `to`, `clone`, `contiguous` and `stack` by the copy inside them."""


_VIEWS = (
    "view t transpose expand as_strided detach detach_ slice select unsqueeze squeeze permute narrow chunk split "
    "split_with_sizes unbind alias diagonal unfold movedim swapaxes view_as expand_as unflatten tensor_split T mT "
    "numpy_T adjoint real imag view_as_real view_as_complex _unsafe_view _reshape_alias lift_fresh empty empty_like "
    "empty_strided new_empty new_empty_strided resize_ set_ requires_grad_ resolve_conj resolve_neg conj _conj "
    "result_type record_stream squeeze_ unsqueeze_ transpose_ t_ as_strided_ hsplit vsplit"
)


def _no_cost(_op: Operands) -> Cost:
    return Cost(0, 0)


VIEW_RULES: dict[str, Rule] = {
    **{f"aten::{name}": Rule(OpFamily.VIEW, _no_cost) for name in _VIEWS.split()},
    "detach": Rule(OpFamily.VIEW, _no_cost),
    "detach_": Rule(OpFamily.VIEW, _no_cost),
}
"""Formulas of views: no cost. `reshape` and `contiguous` may copy; the copy inside them counts."""


def _index_select(op: Operands) -> Cost:
    """self, dim, index."""
    x, index = op.tensor(0), op.tensor(2)
    if not x.shape:
        raise UnknownOperandError(op.name)
    axis = op.integer(1)
    if not -len(x.shape) <= axis < len(x.shape):
        raise UnknownOperandError(op.name)
    axis %= len(x.shape)
    rows = x.like(tuple(index.numel if i == axis else size for i, size in enumerate(x.shape)))
    return cost(0, (index, rows), (rows,))


def _gather(op: Operands) -> Cost:
    """self, dim, index: as many as there are indices."""
    x, index = op.tensor(0), op.tensor(2)
    found = x.like(index.shape)
    return cost(0, (index, found), (found,))


def _index(op: Operands) -> Cost:
    """self, list of indices."""
    found = op.output(0)
    indices = op.tensors(1) if op.values[1:2] != (None,) else ()
    return cost(0, (*indices, found), (found,))


def _scatter(op: Operands, source: int, adds: bool) -> Cost:
    """self, dim, index, source: written where the indices say; read first where something is added."""
    x, index, values = op.tensor(0), op.tensor(2), op.optional(source)
    count = index.numel if values is None else values.numel
    target = x.like((count,))
    extra = () if op.name.endswith("_") else (x,)
    copied = () if op.name.endswith("_") else (x.like(),)
    reads = (index, values, target if adds else None, *extra)
    return cost(count if adds else 0, reads, (target, *copied))


def _index_put(op: Operands) -> Cost:
    """self, indices, values, accumulate."""
    x, values = op.tensor(0), op.tensor(2)
    adds = op.has_scalar(3) and op.flags(3)[0]
    target = x.like(values.shape)
    indices = op.tensors(1) if op.values[1:2] != (None,) else ()
    return cost(values.numel if adds else 0, (values, *indices, target if adds else None), (target,))


def _scatter_rule(source: int, adds: bool) -> Rule:
    return Rule(OpFamily.INDEXING, partial(_scatter, source=source, adds=adds))


INDEXING_RULES: dict[str, Rule] = {
    "aten::index_select": Rule(OpFamily.INDEXING, _index_select),
    "aten::gather": Rule(OpFamily.INDEXING, _gather),
    "aten::index": Rule(OpFamily.INDEXING, _index),
    **dict.fromkeys(("aten::index_add", "aten::index_add_"), _scatter_rule(3, True)),
    **dict.fromkeys(("aten::scatter_add", "aten::scatter_add_"), _scatter_rule(3, True)),
    **dict.fromkeys(("aten::scatter", "aten::scatter_"), _scatter_rule(3, False)),
    **dict.fromkeys(
        ("aten::_index_put_impl_", "aten::index_put_", "aten::index_put"), Rule(OpFamily.INDEXING, _index_put)
    ),
}
"""Formulas of gathering and scattering."""


COLLECTIVE_PREFIX = "collective:"
"""Prefix of collectives whose arguments state the sizes of input and output."""


def _all_reduce(op: Operands, first: int = 0) -> Cost:
    """Reads as many elements as it writes, and adds."""
    tensors = op.tensors(first)
    return cost(_additions(op, sum(tensor.numel for tensor in tensors)), tensors, tensors)


def _additions(op: Operands, elements: int) -> int | None:
    if not op.group_size or op.group_size < 1:
        return None
    return elements * (op.group_size - 1) // op.group_size


def _by_stated_sizes(op: Operands, adds: bool) -> Cost:
    """Count elements in and out by its arguments."""
    given, written = op.tensor(0), op.tensor(1)
    return cost(_additions(op, given.numel) if adds else 0, (given,), (written,))


def _exchange(op: Operands) -> Cost:
    """Count its operands as read and written; other sizes (gather, uneven splits) are not in the trace."""
    tensors = op.tensors(0)
    return cost(0, tensors, tensors)


def _all_gather(op: Operands) -> Cost:
    """All ranks' inputs, in turn."""
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

COLLECTIVE_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("nccl:all_reduce", "nccl:reduce", "gloo:all_reduce", "gloo:reduce"),
        Rule(OpFamily.COLLECTIVE, _all_reduce),
    ),
    **dict.fromkeys(
        ("nccl:broadcast", "nccl:all_to_all", "gloo:broadcast", "nccl:send"),
        Rule(OpFamily.COLLECTIVE, _exchange),
    ),
    **dict.fromkeys(
        ("nccl:_all_gather_base", "nccl:all_gather", "gloo:all_gather"),
        Rule(OpFamily.COLLECTIVE, _all_gather),
    ),
    "_C_custom_ar::all_reduce": Rule(OpFamily.COLLECTIVE, partial(_all_reduce, first=1)),
    "_C_custom_ar::qr_all_reduce": Rule(OpFamily.COLLECTIVE, partial(_all_reduce, first=1)),
    "sgl_kernel::all_reduce": Rule(OpFamily.COLLECTIVE, partial(_all_reduce, first=1)),
    **{
        f"{COLLECTIVE_PREFIX}{name}": Rule(OpFamily.COLLECTIVE, partial(_by_stated_sizes, adds=True))
        for name in _REDUCING.split()
    },
    **{
        f"{COLLECTIVE_PREFIX}{name}": Rule(OpFamily.COLLECTIVE, partial(_by_stated_sizes, adds=False))
        for name in _MOVING.split()
    },
}
"""Formulas of collectives."""


MOVEMENT_RULES: dict[str, Rule] = {
    **VIEW_RULES,
    **COPY_RULES,
    **INDEXING_RULES,
    **COLLECTIVE_RULES,
}
"""By the name of the op."""
