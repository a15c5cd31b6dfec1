"""Ops that compute on the elements of tensors: operations of each element, from shapes and types of the operands.

Each arithmetic operation, comparison, or call of a function (`exp`, `sqrt`, `erf`, `tanh`) counts as one; a formula of
several counts its operations as written in the documentation of `torch.nn.functional`. torch.utils.flop_counter counts
no elementwise op; `with_flops` of torch.profiler counts one for each element of `add` and `mul`, as here.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from math import prod

from tracebraid.analysis.efficiency.operands import (
    BITS,
    SCALAR_TYPES,
    Cost,
    Operands,
    Rule,
    Tensor,
    UnknownOperandError,
    cost,
    promoted,
)
from tracebraid.model.answers.efficiency import OpFamily

_POINTWISE_FLOPS = {
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

_BOOLEAN_OPS = {
    "eq ne gt ge lt le logical_and logical_or logical_xor": 2,
    "isnan isinf isfinite logical_not": 1,
}
"""Operands of ops that write booleans, with a FLOP for each."""


def broadcast_of(tensors: list[Tensor]) -> tuple[int, ...]:
    """The shape that tensors are broadcast to."""
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


def _pointwise_rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for names, (operands, flops) in _POINTWISE_FLOPS.items():
        rule = Rule(OpFamily.POINTWISE, partial(_elementwise, operands=operands, flops=flops))
        found |= _in_both_forms(names, rule)
    for names, operands in _BOOLEAN_OPS.items():
        formula = partial(_elementwise, operands=operands, flops=1, dtype="bool")
        found |= _in_both_forms(names, Rule(OpFamily.POINTWISE, formula))
    return found


def _in_both_forms(names: str, rule: Rule) -> dict[str, Rule]:
    """An op, and the form that writes its first operand."""
    return {f"aten::{name}{mark}": rule for name in names.split() for mark in ("", "_")}


POINTWISE_RULES: dict[str, Rule] = {
    **_pointwise_rules(),
    "aten::native_dropout": Rule(OpFamily.POINTWISE, _dropout),
    "aten::native_dropout_backward": Rule(OpFamily.POINTWISE, _dropout_backward),
    "aten::glu": Rule(OpFamily.POINTWISE, _glu),
}
"""Formulas of elementwise ops."""


_WITH_INDEX = 3
"""Arguments of the form of `max` and `min` that reduces a dimension: self, dim, keepdim."""


def _reduce(op: Operands, per_element: int, per_result: int = 0, dims: int = 1, dtype: str = "") -> Cost:
    """Reads the input, writes the result; `max` and `min` of two tensors are elementwise."""
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


def _reduction_rule(per_element: int, per_result: int = 0, dims: int = 1, dtype: str = "") -> Rule:
    formula = partial(_reduce, per_element=per_element, per_result=per_result, dims=dims, dtype=dtype)
    return Rule(OpFamily.REDUCTION, formula)


REDUCTION_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("aten::sum", "aten::nansum", "aten::prod", "aten::amax", "aten::amin", "aten::max", "aten::min"),
        _reduction_rule(1),
    ),
    "aten::mean": _reduction_rule(1, per_result=1),
    **dict.fromkeys(("aten::var", "aten::std"), _reduction_rule(4, per_result=1)),
    "aten::var_mean": _reduction_rule(4, per_result=2),
    "aten::logsumexp": _reduction_rule(3, per_result=1),
    **dict.fromkeys(("aten::norm", "aten::linalg_vector_norm"), _reduction_rule(2, per_result=1, dims=2)),
    **dict.fromkeys(("aten::argmax", "aten::argmin"), _reduction_rule(1, dtype="long int")),
    **dict.fromkeys(("aten::all", "aten::any"), _reduction_rule(1, dtype="bool")),
    **dict.fromkeys(("aten::cumsum", "aten::cumprod"), Rule(OpFamily.REDUCTION, _scan)),
    "aten::topk": Rule(OpFamily.REDUCTION, _topk),
    "aten::sort": Rule(OpFamily.REDUCTION, _sort),
}
"""Formulas of reductions."""


_MEAN = 1
_VARIANCE = 3
_NORMALISE = 2
_AFFINE = 2
_RMS = 3
_NORM_BACKWARD_SUMS = 4
_NORM_BACKWARD_INPUT = 4
_NORM_BACKWARD_AFFINE = 3


def _row_norm(op: Operands, weight: int, bias: int, groups: int | None = None) -> Cost:
    """Layer and group normalisation: writes the result, and mean and reciprocal deviation of each row or group."""
    x, scale, shift = op.tensor(0), op.optional(weight), op.optional(bias)
    flops = _MEAN + _VARIANCE + _NORMALISE + (_AFFINE if scale is not None else 0)
    size = _row_size(op, x, groups)
    statistics = Tensor((2 * (x.numel // size if size else 0),), _statistics_type(x))
    return cost(flops * x.numel, (x, scale, shift), (x.like(), statistics))


def _row_size(op: Operands, x: Tensor, groups: int | None) -> int:
    if groups is not None:
        return x.numel // max(x.shape[0] * op.integer(groups), 1) if x.shape else 1
    size = 1
    for length in op.ints(1):
        size *= length
    return size


def _statistics_type(x: Tensor) -> str:
    """Mean and deviation of halves are floats."""
    return "float" if x.dtype in ("c10::Half", "c10::BFloat16") else x.dtype


def _rms_norm(op: Operands) -> Cost:
    """Root mean square: self, normalized_shape, weight."""
    x, scale = op.tensor(0), op.optional(2)
    flops = _RMS + (1 if scale is not None else 0)
    size = _row_size(op, x, None)
    return cost(
        flops * x.numel,
        (x, scale),
        (x.like(), Tensor((x.numel // size if size else 0,), _statistics_type(x))),
    )


def _engine_rms_norm(
    op: Operands, x: int, weight: int, residual: int | None = None, out: int | None = None
) -> Cost:
    """Arguments as in inference engines: a residual is added to the input first, and written back."""
    given, scale = op.tensor(x), op.optional(weight)
    added = None if residual is None else op.tensor(residual)
    flops = _RMS + (1 if scale is not None else 0) + (1 if added is not None else 0)
    written = given.like() if out is None else op.tensor(out)
    return cost(flops * given.numel, (given, added, scale), (written, added))


def _engine_rules(
    names: str, x: int, weight: int, residual: int | None = None, out: int | None = None
) -> dict[str, Rule]:
    """Rules of ops of one signature."""
    formula = partial(_engine_rms_norm, x=x, weight=weight, residual=residual, out=out)
    return dict.fromkeys(names.split(), Rule(OpFamily.NORMALISATION, formula))


def _batch_norm(op: Operands, training: int) -> Cost:
    """input, weight, bias, running mean and variance: written again in training, with the batch's own."""
    x = op.tensor(0)
    channels = [op.optional(i) for i in (1, 2, 3, 4)]
    trains = op.flags(training)[0] if op.has_scalar(training) else True
    flops = _NORMALISE + (_AFFINE if channels[0] is not None else 0) + (_MEAN + _VARIANCE if trains else 0)
    count = x.shape[1] if len(x.shape) > 1 else 0
    saved = Tensor((2 * count,), _statistics_type(x))
    writes = (x.like(), saved, *channels[2:]) if trains else (x.like(),)
    return cost(flops * x.numel, (x, *channels), writes)


def _norm_backward(
    op: Operands, weight: int, saved: tuple[int, ...], mask: int | None = None, has_shift: bool = True
) -> Cost:
    """Reads gradient, input, scale and what was saved; writes gradients of the input, and of scale and shift."""
    grad, x, scale = op.tensor(0), op.tensor(1), op.optional(weight)
    flags = op.flags(mask) if mask is not None and op.has_scalar(mask) else [True] * 3
    of_input, of_scale, of_shift = [*flags, False, False, False][:3]
    affine = [scale is not None and of_scale, scale is not None and of_shift and has_shift]
    flops = (
        _NORMALISE
        + (_NORM_BACKWARD_SUMS + _NORM_BACKWARD_INPUT) * of_input
        + _NORM_BACKWARD_AFFINE * any(affine)
    )
    channels = [scale.like() for asked in affine if asked and scale is not None]
    writes = (x.like() if of_input else None, *channels)
    return cost(flops * x.numel, (grad, x, scale, *(op.optional(i) for i in saved)), writes)


_IN_TRAINING = Rule(OpFamily.NORMALISATION, partial(_batch_norm, training=5))

NORMALISATION_RULES: dict[str, Rule] = {
    "aten::native_layer_norm": Rule(OpFamily.NORMALISATION, partial(_row_norm, weight=2, bias=3)),
    "aten::native_group_norm": Rule(OpFamily.NORMALISATION, partial(_row_norm, weight=1, bias=2, groups=6)),
    "aten::_fused_rms_norm": Rule(OpFamily.NORMALISATION, _rms_norm),
    "aten::rms_norm": Rule(OpFamily.NORMALISATION, _rms_norm, composite=True),
    **_engine_rules(
        "_C::rms_norm sgl_kernel::rmsnorm sgl_kernel::gemma_rmsnorm aiter::rms_norm_cu aiter::rmsnorm",
        x=1,
        weight=2,
        out=0,
    ),
    **_engine_rules(
        "_C::fused_add_rms_norm sgl_kernel::fused_add_rmsnorm sgl_kernel::gemma_fused_add_rmsnorm "
        "aiter::fused_add_rms_norm_cu vllm::rocm_aiter_rmsnorm2d_fwd_with_add",
        x=0,
        residual=1,
        weight=2,
    ),
    **_engine_rules(
        "aiter::rms_norm aiter::rmsnorm2d_fwd aiter::rmsnorm2d_fwd_ck vllm::rocm_aiter_rms_norm",
        x=0,
        weight=1,
    ),
    **_engine_rules(
        "aiter::rmsnorm2d_fwd_with_add aiter::rmsnorm2d_fwd_with_add_ck aiter::add_rmsnorm",
        x=1,
        residual=2,
        weight=4,
        out=0,
    ),
    **dict.fromkeys(
        (
            "aten::native_batch_norm",
            "aten::_native_batch_norm_legit",
            "aten::_batch_norm_with_update",
            "aten::cudnn_batch_norm",
            "aten::miopen_batch_norm",
        ),
        _IN_TRAINING,
    ),
    "aten::native_layer_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_norm_backward, weight=5, saved=(3, 4), mask=7)
    ),
    "aten::native_group_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_norm_backward, weight=4, saved=(2, 3), mask=9)
    ),
    "aten::_fused_rms_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_norm_backward, weight=4, saved=(3,), mask=5, has_shift=False)
    ),
    "aten::native_batch_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_norm_backward, weight=2, saved=(5, 6), mask=9)
    ),
    "aten::cudnn_batch_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_norm_backward, weight=2, saved=(5, 6))
    ),
    "aten::miopen_batch_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_norm_backward, weight=2, saved=(5, 6))
    ),
}
"""Formulas of normalisation."""


_SOFTMAX = 5
_SOFTMAX_BACKWARD = 4


def _softmax(op: Operands) -> Cost:
    """self, dim, half_to_float: the last makes a float of a half."""
    x = op.tensor(0)
    widens = op.has_scalar(2) and op.flags(2)[0]
    return cost(_SOFTMAX * x.numel, (x,), (x.like(dtype="float" if widens else x.dtype),))


def _softmax_backward(op: Operands) -> Cost:
    """gradient, output, dim, type of the input."""
    grad, out = op.tensor(0), op.tensor(1)
    dtype = SCALAR_TYPES.get(op.integer(3), "") if op.has_scalar(3) else grad.dtype
    return cost(_SOFTMAX_BACKWARD * grad.numel, (grad, out), (grad.like(dtype=dtype),))


SOFTMAX_RULES: dict[str, Rule] = {
    "aten::_softmax": Rule(OpFamily.SOFTMAX, _softmax),
    "aten::_log_softmax": Rule(OpFamily.SOFTMAX, _softmax),
    "aten::_softmax_backward_data": Rule(OpFamily.SOFTMAX, _softmax_backward),
    "aten::_log_softmax_backward_data": Rule(OpFamily.SOFTMAX, _softmax_backward),
}
"""Formulas of softmax; `softmax` and `log_softmax` by these inside them."""


def _pool(op: Operands, dilation: int | None, ceil: int, with_positions: bool) -> Cost:
    """self, kernel, stride (empty: the kernel), padding, then what the op has of its own."""
    x = op.tensor(0)
    kernel = op.ints(1)
    rank = len(kernel)
    if not 0 < rank < len(x.shape):
        raise UnknownOperandError(op.name)
    stride = op.ints(2) if op.has_scalar(2) and op.scalars[2] != "[]" else kernel
    padding = op.ints(3)
    steps = [1] * rank if dilation is None else op.ints(dilation)
    if not len(stride) == len(padding) == len(steps) == rank or min(stride) < 1:
        raise UnknownOperandError(op.name)
    up = op.flags(ceil)[0]
    windows = [step * (wide - 1) + 1 for step, wide in zip(steps, kernel, strict=True)]
    sizes = list(map(_pooled_size, x.shape[-rank:], windows, stride, padding, [up] * rank))
    out = x.like((*x.shape[:-rank], *sizes))
    writes = (out, out.like(dtype="long int")) if with_positions else (out,)
    return cost(out.numel * prod(kernel), (x,), writes)


def _pooled_size(size: int, window: int, stride: int, padding: int, up: bool) -> int:
    """Positions of a window; if rounded up, the last begins in the input or the padding before it, as in PyTorch."""
    count = max((size + 2 * padding - window + (stride - 1 if up else 0)) // stride + 1, 0)
    return count - (up and (count - 1) * stride >= size + padding)


def _adaptive_pool(op: Operands) -> Cost:
    x, sizes = op.tensor(0), op.ints(1)
    if not 0 < len(sizes) < len(x.shape):
        raise UnknownOperandError(op.name)
    out = x.like((*x.shape[: -len(sizes)], *sizes))
    return cost(x.numel + out.numel, (x,), (out,))


def _pool_backward(op: Operands, positions: int | None) -> Cost:
    """Reads the gradient, and positions where it has them; writes a gradient as large as the input."""
    grad, x = op.tensor(0), op.tensor(1)
    saved: Tensor | None = None if positions is None else op.optional(positions)
    return cost(max(grad.numel, x.numel if positions is None else 0), (grad, saved), (x.like(),))


def _pool_rule(dilation: int | None, ceil: int, with_positions: bool) -> Rule:
    return Rule(OpFamily.POOLING, partial(_pool, dilation=dilation, ceil=ceil, with_positions=with_positions))


POOLING_RULES: dict[str, Rule] = {
    "aten::max_pool2d_with_indices": _pool_rule(4, 5, True),
    "aten::max_pool3d_with_indices": _pool_rule(4, 5, True),
    "aten::avg_pool2d": _pool_rule(None, 4, False),
    "aten::avg_pool3d": _pool_rule(None, 4, False),
    "aten::_adaptive_avg_pool2d": Rule(OpFamily.POOLING, _adaptive_pool),
    "aten::_adaptive_avg_pool3d": Rule(OpFamily.POOLING, _adaptive_pool),
    "aten::max_pool2d_with_indices_backward": Rule(OpFamily.POOLING, partial(_pool_backward, positions=7)),
    "aten::avg_pool2d_backward": Rule(OpFamily.POOLING, partial(_pool_backward, positions=None)),
    "aten::_adaptive_avg_pool2d_backward": Rule(OpFamily.POOLING, partial(_pool_backward, positions=None)),
}
"""Formulas of pooling."""


_NO_REDUCTION = 0


def _pair_loss(op: Operands, flops: int, reduction: int) -> Cost:
    """input, target, and weights before the reduction, where there are any."""
    x, target = op.tensor(0), op.tensor(1)
    weights = [op.optional(i) for i in range(2, reduction)]
    keeps = op.integer(reduction) == _NO_REDUCTION
    return cost((flops + (not keeps)) * x.numel, (x, target, *weights), (x.like(None if keeps else ()),))


def _pair_loss_backward(op: Operands, flops: int, reduction: int) -> Cost:
    """gradient, input, target, and weights."""
    grad, x, target = op.tensor(0), op.tensor(1), op.tensor(2)
    weights = [op.optional(i) for i in range(3, reduction)]
    return cost(flops * x.numel, (grad, x, target, *weights), (x.like(),))


def _nll_loss(op: Operands) -> Cost:
    """input, target, weight, reduction: a number of each row is picked; writes the loss and the sum of weights."""
    x, target, weight = op.tensor(0), op.tensor(1), op.optional(2)
    keeps = op.integer(3) == _NO_REDUCTION
    picked = x.like(target.shape)
    out = x.like(target.shape if keeps else ())
    return cost(2 * target.numel, (target, picked, weight), (out, x.like(())))


def _nll_loss_backward(op: Operands) -> Cost:
    """gradient, input, target, weight, reduction, ignore_index, total weight: writes a gradient of the input's size."""
    grad, x, target = op.tensor(0), op.tensor(1), op.tensor(2)
    return cost(2 * target.numel, (grad, target, op.optional(3), op.optional(6)), (x.like(),))


def _loss_rules() -> dict[str, Rule]:
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
        found[f"aten::{name}"] = Rule(OpFamily.LOSS, partial(_pair_loss, flops=forward, reduction=reduction))
        formula = partial(_pair_loss_backward, flops=backward, reduction=reduction + 1)
        found[f"aten::{name}_backward"] = Rule(OpFamily.LOSS, formula)
    return found


LOSS_RULES: dict[str, Rule] = {
    **_loss_rules(),
    **dict.fromkeys(("aten::nll_loss_forward", "aten::nll_loss2d_forward"), Rule(OpFamily.LOSS, _nll_loss)),
    **dict.fromkeys(
        ("aten::nll_loss_backward", "aten::nll_loss2d_backward"), Rule(OpFamily.LOSS, _nll_loss_backward)
    ),
}
"""Formulas of losses; cross entropy and those with logits by the ops inside them."""


_ADAMW = 14
_ADAM = 15
_ADAGRAD = 8
_SGD = 2
_SGD_DECAY = 2
_SGD_MOMENTUM = 3

_FOREACH_FLOPS = {
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


def _foreach_lerp(op: Operands) -> Cost:
    """self, ends, weight: 3 for each element; the weight may be a list."""
    return _foreach(op, 3, 3)


def _foreach_norm(op: Operands) -> Cost:
    """The norm of each tensor: 2 for each element."""
    tensors = op.tensors(0)
    return cost(2 * sum(tensor.numel for tensor in tensors), tensors, [tensor.like(()) for tensor in tensors])


def _has_tensors(op: Operands, position: int) -> bool:
    return 0 <= position < len(op.values) and op.values[position] is not None


def _fused_optimizer(op: Operands, flops: int, states: tuple[int, ...]) -> Cost:
    """self, grads, then lists of states: all are read; parameters and states are written."""
    parameters = op.tensors(0)
    kept: list[Tensor] = [tensor for i in states if _has_tensors(op, i) for tensor in op.tensors(i)]
    numel = sum(tensor.numel for tensor in parameters)
    writes = [tensor.like() for tensor in (*parameters, *kept)]
    return cost(flops * numel, (*parameters, *op.tensors(1), *kept), writes)


def _fused_sgd(op: Operands) -> Cost:
    """self, grads, momentum buffers, weight_decay: buffers are there with momentum only."""
    flops = _SGD + (_SGD_MOMENTUM if _has_tensors(op, 2) and op.tensors(2) else 0)
    decays = op.has_scalar(3) and op.scalars[3].strip("0.") != ""
    return _fused_optimizer(op, flops + (_SGD_DECAY if decays else 0), (2,))


def _foreach_rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for names, (lists, flops) in _FOREACH_FLOPS.items():
        rule = Rule(OpFamily.OPTIMIZER, partial(_foreach, lists=lists, flops=flops))
        for name in names.split():
            found |= {f"aten::_foreach_{name}": rule, f"aten::_foreach_{name}_": rule}
    return found


OPTIMIZER_RULES: dict[str, Rule] = {
    **_foreach_rules(),
    **dict.fromkeys(("aten::_foreach_lerp", "aten::_foreach_lerp_"), Rule(OpFamily.OPTIMIZER, _foreach_lerp)),
    "aten::_foreach_norm": Rule(OpFamily.OPTIMIZER, _foreach_norm),
    "aten::_fused_adamw_": Rule(
        OpFamily.OPTIMIZER, partial(_fused_optimizer, flops=_ADAMW, states=(2, 3, 4))
    ),
    "aten::_fused_adam_": Rule(OpFamily.OPTIMIZER, partial(_fused_optimizer, flops=_ADAM, states=(2, 3, 4))),
    "aten::_fused_adagrad_": Rule(OpFamily.OPTIMIZER, partial(_fused_optimizer, flops=_ADAGRAD, states=(2,))),
    "aten::_fused_sgd_": Rule(OpFamily.OPTIMIZER, _fused_sgd),
}
"""Formulas of optimizers."""


TENSOR_RULES: dict[str, Rule] = {
    **POINTWISE_RULES,
    **REDUCTION_RULES,
    **POOLING_RULES,
    **SOFTMAX_RULES,
    **NORMALISATION_RULES,
    **LOSS_RULES,
    **OPTIMIZER_RULES,
}
"""By the name of the op."""
