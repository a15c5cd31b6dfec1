"""Convolutions: 2 FLOPs for each weight that meets each position; the bias adds none.

Source: `conv_flop` and `conv_backward_flop` of torch.utils.flop_counter. Its gradient of the weight of a grouped
convolution is `groups` times too much (it multiplies all input channels by all output channels); here each gradient
takes as many FLOPs as the forward convolution. Output sizes: documentation of `torch.nn.Conv2d` and
`torch.nn.ConvTranspose2d`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, cost
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]


@dataclass(frozen=True)
class _Arguments:
    """Positions of a convolution's arguments; None: it has none.

    Args:
        stride: of the stride.
        padding: of the padding.
        dilation: of the dilation.
        bias: of the bias.
        groups: of the number of groups.
        transposed: of the flag; or whether it always, or never, is.
        output_padding: of the padding of the output.
        added: of a tensor that is added to the result.
    """

    stride: int
    padding: int
    dilation: int | None
    bias: int | None
    groups: int | None = None
    transposed: int | bool = False
    output_padding: int | None = None
    added: int | None = None


def _forward(op: Operands, at: _Arguments) -> Cost:
    x, weight = op.tensor(0), op.tensor(1)
    if len(x.shape) < 3 or len(weight.shape) != len(x.shape):
        raise UnknownOperandError(op.name)
    flag = at.transposed
    transposed = flag if isinstance(flag, bool) else op.flags(flag)[0]
    out = _output(op, at, x, weight, transposed)
    positions = prod((x if transposed else out).shape[2:])
    extra = [None if i is None else op.optional(i) for i in (at.bias, at.added)]
    flops = 2 * x.shape[0] * positions * weight.numel
    return cost(flops, (x, weight, *extra), (out,), computes=x)


def _output(op: Operands, at: _Arguments, x: Tensor, weight: Tensor, transposed: bool) -> Tensor:
    """The output: from the Execution Trace where the trace has no values of arguments."""
    if not op.has_scalar(at.stride) and op.outputs:
        return op.output(0)
    rank = len(x.shape) - 2
    stride, padding = (_repeated(op.ints(i), rank) for i in (at.stride, at.padding))
    dilation = [1] * rank if at.dilation is None else _repeated(op.ints(at.dilation), rank)
    reach = [dilation[i] * (weight.shape[2 + i] - 1) + 1 for i in range(rank)]
    sizes = x.shape[2:]
    if transposed:
        extra = [0] * rank if at.output_padding is None else _repeated(op.ints(at.output_padding), rank)
        spatial = [(sizes[i] - 1) * stride[i] - 2 * padding[i] + reach[i] + extra[i] for i in range(rank)]
        groups = 1 if at.groups is None else op.integer(at.groups)
        channels = weight.shape[1] * groups
    else:
        spatial = [(sizes[i] + 2 * padding[i] - reach[i]) // max(stride[i], 1) + 1 for i in range(rank)]
        channels = weight.shape[0]
    return x.like((x.shape[0], channels, *(max(size, 0) for size in spatial)))


def _repeated(values: list[int], rank: int) -> list[int]:
    if len(values) not in (1, rank):
        raise UnknownOperandError(values)
    return values * rank if len(values) == 1 else values


def _backward(op: Operands) -> Cost:
    """The gradients that `output_mask` asks for; where its value was not recorded: those of input and weight."""
    grad, x, weight = op.tensor(0), op.tensor(1), op.tensor(2)
    if len(x.shape) < 3 or len(grad.shape) != len(x.shape) or len(weight.shape) != len(x.shape):
        raise UnknownOperandError(op.name)
    transposed = op.flags(7)[0] if op.has_scalar(7) else False
    of_input, of_weight, of_bias = (
        [*op.flags(10), False, False, False][:3] if op.has_scalar(10) else (True, True, False)
    )
    positions = prod((x if transposed else grad).shape[2:])
    flops = 2 * x.shape[0] * positions * weight.numel
    reads = (grad, x if of_weight else None, weight if of_input else None)
    bias = grad.like(grad.shape[1:2])
    writes = (x if of_input else None, weight if of_weight else None, bias if of_bias else None)
    return cost(flops * (of_input + of_weight), reads, writes, computes=x)


_GENERAL = _Arguments(3, 4, 5, bias=2, groups=8, transposed=6, output_padding=7)
_KERNEL_SIZE = _Arguments(4, 5, None, bias=3)
_KERNEL_SIZE_DILATED = _Arguments(4, 5, 6, bias=3)

_ARGUMENTS: dict[str, _Arguments] = {
    "aten::convolution": _GENERAL,
    "aten::_convolution": _GENERAL,
    "aten::convolution_overrideable": _GENERAL,
    "aten::cudnn_convolution": _Arguments(3, 2, 4, bias=None, groups=5),
    "aten::cudnn_convolution_transpose": _Arguments(
        4, 2, 5, bias=None, groups=6, transposed=True, output_padding=3
    ),
    "aten::cudnn_convolution_relu": _Arguments(3, 4, 5, bias=2, groups=6),
    "aten::cudnn_convolution_add_relu": _Arguments(5, 6, 7, bias=4, groups=8, added=2),
    "aten::miopen_convolution": _Arguments(4, 3, 5, bias=2, groups=6),
    "aten::miopen_depthwise_convolution": _Arguments(4, 3, 5, bias=2, groups=6),
    "aten::miopen_convolution_transpose": _Arguments(
        5, 3, 6, bias=2, groups=7, transposed=True, output_padding=4
    ),
    "aten::mkldnn_convolution": _Arguments(4, 3, 5, bias=2, groups=6),
    "aten::thnn_conv2d": _KERNEL_SIZE,
    "aten::_slow_conv2d_forward": _KERNEL_SIZE,
    "aten::slow_conv3d": _KERNEL_SIZE,
    "aten::slow_conv3d_forward": _KERNEL_SIZE,
    "aten::_conv_depthwise2d": _KERNEL_SIZE_DILATED,
    "aten::conv_depthwise3d": _KERNEL_SIZE_DILATED,
    "aten::slow_conv_dilated2d": _KERNEL_SIZE_DILATED,
    "aten::slow_conv_dilated3d": _KERNEL_SIZE_DILATED,
}

RULES: dict[str, Rule] = {
    **{
        name: Rule(OpFamily.CONVOLUTION, partial(_forward, at=arguments))
        for name, arguments in _ARGUMENTS.items()
    },
    "aten::convolution_backward": Rule(OpFamily.CONVOLUTION, _backward),
    "aten::convolution_backward_overrideable": Rule(OpFamily.CONVOLUTION, _backward),
}
"""How convolutions are counted: the op that others lie in, such as `convolution`, which knows all arguments."""
