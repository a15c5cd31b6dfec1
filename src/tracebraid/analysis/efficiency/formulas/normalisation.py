"""Normalisation: operations for each element of the input, from the formulas as `torch.nn` documents them.

Forward: 1 for the mean, 3 for the variance (subtract, square, add), 2 to normalise, 2 for scale and shift where there
are any; without a mean (RMS): 2 for the squares, 1 to normalise, 1 for the scale. In evaluation, batch normalisation
knows mean and variance. Backward: 2 to normalise again, 4 for the two sums over a row, 4 for the gradient of the input,
3 for those of scale and shift.
"""

from __future__ import annotations

from functools import partial

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_MEAN, _VARIANCE, _NORMALISE, _AFFINE = 1, 3, 2, 2
_RMS = 3
_BACKWARD_SUMS, _BACKWARD_INPUT, _BACKWARD_AFFINE = 4, 4, 3


def _rows(op: Operands, weight: int, bias: int, groups: int | None = None) -> Cost:
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


def _rms(op: Operands) -> Cost:
    """Root mean square: self, normalized_shape, weight."""
    x, scale = op.tensor(0), op.optional(2)
    flops = _RMS + (1 if scale is not None else 0)
    size = _row_size(op, x, None)
    return cost(
        flops * x.numel,
        (x, scale),
        (x.like(), Tensor((x.numel // size if size else 0,), _statistics_type(x))),
    )


def _batch(op: Operands, training: int) -> Cost:
    """input, weight, bias, running mean and variance: written again in training, with the batch's own."""
    x = op.tensor(0)
    channels = [op.optional(i) for i in (1, 2, 3, 4)]
    trains = op.flags(training)[0] if op.has_scalar(training) else True
    flops = _NORMALISE + (_AFFINE if channels[0] is not None else 0) + (_MEAN + _VARIANCE if trains else 0)
    count = x.shape[1] if len(x.shape) > 1 else 0
    saved = Tensor((2 * count,), _statistics_type(x))
    writes = (x.like(), saved, *channels[2:]) if trains else (x.like(),)
    return cost(flops * x.numel, (x, *channels), writes)


def _backward(
    op: Operands, weight: int, saved: tuple[int, ...], mask: int | None = None, has_shift: bool = True
) -> Cost:
    """Reads gradient, input, scale and what was saved; writes gradients of the input, and of scale and shift.

    Args:
        op: gradient and input come first.
        weight: position of the scale.
        saved: positions of what the forward pass saved.
        mask: position of the flags that say which gradients are asked for; None, or not recorded: all.
        has_shift: whether there is one beside the scale.
    """
    grad, x, scale = op.tensor(0), op.tensor(1), op.optional(weight)
    flags = op.flags(mask) if mask is not None and op.has_scalar(mask) else [True] * 3
    of_input, of_scale, of_shift = [*flags, False, False, False][:3]
    affine = [scale is not None and of_scale, scale is not None and of_shift and has_shift]
    flops = _NORMALISE + (_BACKWARD_SUMS + _BACKWARD_INPUT) * of_input + _BACKWARD_AFFINE * any(affine)
    channels = [scale.like() for asked in affine if asked and scale is not None]
    writes = (x.like() if of_input else None, *channels)
    return cost(flops * x.numel, (grad, x, scale, *(op.optional(i) for i in saved)), writes)


_IN_TRAINING = Rule(OpFamily.NORMALISATION, partial(_batch, training=5))

RULES: dict[str, Rule] = {
    "aten::native_layer_norm": Rule(OpFamily.NORMALISATION, partial(_rows, weight=2, bias=3)),
    "aten::native_group_norm": Rule(OpFamily.NORMALISATION, partial(_rows, weight=1, bias=2, groups=6)),
    "aten::_fused_rms_norm": Rule(OpFamily.NORMALISATION, _rms),
    "aten::rms_norm": Rule(OpFamily.NORMALISATION, _rms, composite=True),
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
        OpFamily.NORMALISATION, partial(_backward, weight=5, saved=(3, 4), mask=7)
    ),
    "aten::native_group_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_backward, weight=4, saved=(2, 3), mask=9)
    ),
    "aten::_fused_rms_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_backward, weight=4, saved=(3,), mask=5, has_shift=False)
    ),
    "aten::native_batch_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_backward, weight=2, saved=(5, 6), mask=9)
    ),
    "aten::cudnn_batch_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_backward, weight=2, saved=(5, 6))
    ),
    "aten::miopen_batch_norm_backward": Rule(
        OpFamily.NORMALISATION, partial(_backward, weight=2, saved=(5, 6))
    ),
}
"""How normalisation is counted."""
