"""Products and attention: matrix products, convolutions, attention, embeddings, and ops of FBGEMM."""

from __future__ import annotations

import re
from functools import partial
from math import prod

from msgspec import Struct

from tracebraid.analysis.efficiency.operands import (
    SCALAR_TYPES,
    CachedKeysError,
    Cost,
    Operands,
    Rule,
    Tensor,
    UnknownOperandError,
    bytes_of,
    cost,
    precision_of,
)
from tracebraid.model.answers.efficiency import OpFamily

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
    """Return whether `beta` is zero: what would be added is then not read."""
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


def _product_rule(first: int, second: int, added: int | None = None, composite: bool = False) -> Rule:
    formula = partial(_product, first=first, second=second, added=added)
    return Rule(OpFamily.MATMUL, formula, composite)


_PAIR = _product_rule(0, 1)
_WITH_ADDED = _product_rule(1, 2, added=0)

MATRIX_RULES: dict[str, Rule] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::vdot", "aten::_int_mm"), _PAIR),
    _SCALED: _product_rule(0, 1, added=4),
    _SCALED_LISTS: _product_rule(0, 1, added=8),
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
    "aten::matmul": _product_rule(0, 1, composite=True),
    "aten::_weight_int4pack_mm": Rule(OpFamily.MATMUL, partial(_packed, weight=1, rows=_INT4_ROWS, scales=3)),
    "aten::_weight_int4pack_mm_for_cpu": Rule(OpFamily.MATMUL, partial(_packed, weight=1, rows=1, scales=3)),
    "aten::_weight_int8pack_mm": Rule(OpFamily.MATMUL, partial(_packed, weight=1, rows=1, scales=2)),
    "aten::_grouped_mm": Rule(OpFamily.MATMUL, _grouped),
    "aten::_scaled_grouped_mm": Rule(OpFamily.MATMUL, partial(_scaled_grouped, offsets=4)),
    "aten::_scaled_grouped_mm_v2": Rule(OpFamily.MATMUL, partial(_scaled_grouped, offsets=8)),
    "_C::cutlass_scaled_mm": Rule(OpFamily.MATMUL, _written_first),
}
"""Formulas of matrix products; `linear` and `matmul` by the product inside them, if the trace has it."""


class _ConvolutionArguments(Struct, frozen=True):
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


def _convolution(op: Operands, at: _ConvolutionArguments) -> Cost:
    x, weight = op.tensor(0), op.tensor(1)
    if len(x.shape) < 3 or len(weight.shape) != len(x.shape):
        raise UnknownOperandError(op.name)
    flag = at.transposed
    transposed = flag if isinstance(flag, bool) else op.flags(flag)[0]
    out = _convolution_output(op, at, x, weight, transposed)
    positions = prod((x if transposed else out).shape[2:])
    extra = [None if i is None else op.optional(i) for i in (at.bias, at.added)]
    flops = 2 * x.shape[0] * positions * weight.numel
    return cost(flops, (x, weight, *extra), (out,), computes=x)


def _convolution_output(
    op: Operands, at: _ConvolutionArguments, x: Tensor, weight: Tensor, transposed: bool
) -> Tensor:
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


def _convolution_backward(op: Operands) -> Cost:
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


_GENERAL = _ConvolutionArguments(3, 4, 5, bias=2, groups=8, transposed=6, output_padding=7)
_KERNEL_SIZE = _ConvolutionArguments(4, 5, None, bias=3)
_KERNEL_SIZE_DILATED = _ConvolutionArguments(4, 5, 6, bias=3)

_CONVOLUTION_ARGUMENTS: dict[str, _ConvolutionArguments] = {
    "aten::convolution": _GENERAL,
    "aten::_convolution": _GENERAL,
    "aten::convolution_overrideable": _GENERAL,
    "aten::cudnn_convolution": _ConvolutionArguments(3, 2, 4, bias=None, groups=5),
    "aten::cudnn_convolution_transpose": _ConvolutionArguments(
        4, 2, 5, bias=None, groups=6, transposed=True, output_padding=3
    ),
    "aten::cudnn_convolution_relu": _ConvolutionArguments(3, 4, 5, bias=2, groups=6),
    "aten::cudnn_convolution_add_relu": _ConvolutionArguments(5, 6, 7, bias=4, groups=8, added=2),
    "aten::miopen_convolution": _ConvolutionArguments(4, 3, 5, bias=2, groups=6),
    "aten::miopen_depthwise_convolution": _ConvolutionArguments(4, 3, 5, bias=2, groups=6),
    "aten::miopen_convolution_transpose": _ConvolutionArguments(
        5, 3, 6, bias=2, groups=7, transposed=True, output_padding=4
    ),
    "aten::mkldnn_convolution": _ConvolutionArguments(4, 3, 5, bias=2, groups=6),
    "aten::thnn_conv2d": _KERNEL_SIZE,
    "aten::_slow_conv2d_forward": _KERNEL_SIZE,
    "aten::slow_conv3d": _KERNEL_SIZE,
    "aten::slow_conv3d_forward": _KERNEL_SIZE,
    "aten::_conv_depthwise2d": _KERNEL_SIZE_DILATED,
    "aten::conv_depthwise3d": _KERNEL_SIZE_DILATED,
    "aten::slow_conv_dilated2d": _KERNEL_SIZE_DILATED,
    "aten::slow_conv_dilated3d": _KERNEL_SIZE_DILATED,
}

CONVOLUTION_RULES: dict[str, Rule] = {
    **{
        name: Rule(OpFamily.CONVOLUTION, partial(_convolution, at=arguments))
        for name, arguments in _CONVOLUTION_ARGUMENTS.items()
    },
    "aten::convolution_backward": Rule(OpFamily.CONVOLUTION, _convolution_backward),
    "aten::convolution_backward_overrideable": Rule(OpFamily.CONVOLUTION, _convolution_backward),
}
"""Formulas of convolutions, by the outer op such as `convolution`, which has all arguments."""


class _AttentionArguments(Struct, frozen=True):
    """Positions of an attention's arguments.

    Args:
        query: of the query; key and value follow it.
        causal: of the flag; None: it has none.
        heads_first: sizes are batch, heads, sequence, size; else batch, sequence, heads, size.
        bias: of a bias on the scores.
        sequences: of the offsets of packed sequences; sizes are then tokens, heads, size.
        gradient: of the gradient of the output, for a backward pass.
        ends_aligned: a causal mask lets the last query meet the last key, instead of the first the first.
    """

    query: int = 0
    causal: int | None = None
    heads_first: bool = True
    bias: int | None = None
    sequences: int | None = None
    gradient: int | None = None
    ends_aligned: bool = False


class _AttentionSizes(Struct, frozen=True):
    batch: int
    heads: int
    queries: int
    keys: int


def causal_pairs(queries: int, keys: int, ends_aligned: bool = False) -> int:
    """Number of pairs that a causal mask leaves: query i meets keys up to i, or up to i + keys - queries."""
    offset = keys - queries if ends_aligned else 0
    first = max(0, -offset)
    full = min(max(keys - offset, first), queries)
    rising = (full - first) * (first + offset + 1 + full + offset) // 2
    return rising + (queries - full) * keys


def _attention(op: Operands, at: _AttentionArguments) -> Cost:
    query, key, value = (op.tensor(at.query + i) for i in range(3))
    sizes = _attention_sizes(op, at, query, key)
    d, e = query.shape[-1], value.shape[-1]
    products = d + e if at.gradient is None else 3 * d + 2 * e
    whole = 2 * sizes.batch * sizes.heads * products
    flops = whole * sizes.queries * sizes.keys
    causal = None
    if at.causal is not None and op.has_scalar(at.causal) and op.flags(at.causal)[0]:
        causal = whole * causal_pairs(sizes.queries, sizes.keys, at.ends_aligned)
    scores = 2 * sizes.batch * sizes.heads * sizes.queries * sizes.keys * d
    repeated = 0 if at.gradient is None else scores
    return Cost(flops, _attention_bytes(op, at, sizes), precision_of(query.dtype), causal, repeated)


def _attention_sizes(op: Operands, at: _AttentionArguments, query: Tensor, key: Tensor) -> _AttentionSizes:
    packed = None if at.sequences is None else op.optional(at.sequences)
    rank = 3 if packed is not None and len(query.shape) == 3 else 4
    if len(query.shape) != rank or len(key.shape) != rank:
        raise UnknownOperandError(op.name)
    if packed is None:
        heads, length = (1, 2) if at.heads_first else (2, 1)
        return _AttentionSizes(query.shape[0], query.shape[heads], query.shape[length], key.shape[length])
    batch = max(packed.numel - 1, 1)
    tokens, keys = (tensor.numel // max(_row_size(tensor), 1) for tensor in (query, key))
    return _AttentionSizes(batch, query.shape[-2], tokens // batch, keys // batch)


def _row_size(tensor: Tensor) -> int:
    """Elements of a token."""
    return tensor.shape[-1] * tensor.shape[-2]


def _attention_bytes(op: Operands, at: _AttentionArguments, sizes: _AttentionSizes) -> int | None:
    """Reads queries, keys, values and bias once, writes the output and a float for each query (its log-sum-exp).

    Backward: reads these and the gradient, writes the gradients of the first three.
    """
    query, key, value = (op.tensor(at.query + i) for i in range(3))
    bias = None if at.bias is None else op.optional(at.bias)
    out = query.like((*query.shape[:-1], value.shape[-1]))
    sums = Tensor((sizes.batch * sizes.heads * sizes.queries,), "float")
    if at.gradient is None:
        return bytes_of((query, key, value, bias), (out, sums))
    gradient = op.tensor(at.gradient)
    return bytes_of((gradient, query, key, value, bias, out, sums), (query, key, value))


_SDPA = "aten::_scaled_dot_product_"
_ATTENTION_ARGUMENTS: dict[str, _AttentionArguments] = {
    f"{_SDPA}flash_attention": _AttentionArguments(causal=4),
    f"{_SDPA}flash_attention_for_cpu": _AttentionArguments(causal=4, bias=5),
    f"{_SDPA}efficient_attention": _AttentionArguments(causal=6, bias=3),
    f"{_SDPA}cudnn_attention": _AttentionArguments(causal=6, bias=3),
    f"{_SDPA}fused_attention_overrideable": _AttentionArguments(causal=5, bias=3),
    f"{_SDPA}flash_attention_backward": _AttentionArguments(query=1, causal=11, gradient=0),
    f"{_SDPA}flash_attention_for_cpu_backward": _AttentionArguments(query=1, causal=7, bias=8, gradient=0),
    f"{_SDPA}efficient_attention_backward": _AttentionArguments(query=1, causal=11, bias=4, gradient=0),
    f"{_SDPA}cudnn_attention_backward": _AttentionArguments(query=1, causal=14, bias=8, gradient=0),
    f"{_SDPA}fused_attention_overrideable_backward": _AttentionArguments(
        query=1, causal=13, bias=4, gradient=0
    ),
    "aten::_flash_attention_forward": _AttentionArguments(
        causal=8, heads_first=False, sequences=3, ends_aligned=True
    ),
    "aten::_flash_attention_backward": _AttentionArguments(
        query=1, causal=11, heads_first=False, sequences=6, gradient=0, ends_aligned=True
    ),
    "aten::_efficient_attention_forward": _AttentionArguments(heads_first=False, bias=3, sequences=4),
    "aten::_efficient_attention_backward": _AttentionArguments(
        query=1, heads_first=False, bias=4, sequences=6, gradient=0
    ),
    "aten::_cudnn_attention_forward": _AttentionArguments(causal=10, bias=3, sequences=4),
    "flash_attn::_flash_attn_forward": _AttentionArguments(causal=5, heads_first=False, ends_aligned=True),
    "flash_attn::_flash_attn_varlen_forward": _AttentionArguments(
        causal=9, heads_first=False, sequences=3, ends_aligned=True
    ),
    "flash_attn::_flash_attn_backward": _AttentionArguments(
        query=1, causal=11, heads_first=False, gradient=0, ends_aligned=True
    ),
    **dict.fromkeys(
        ("aiter::mha_fwd", "aiter::fmha_v3_fwd"),
        _AttentionArguments(causal=5, heads_first=False, ends_aligned=True),
    ),
    "aiter::mha_varlen_fwd": _AttentionArguments(heads_first=False, sequences=3),
    "flash_attn::_flash_attn_varlen_backward": _AttentionArguments(
        query=1, causal=15, heads_first=False, sequences=9, gradient=0, ends_aligned=True
    ),
}

ATTENTION_RULES: dict[str, Rule] = {
    name: Rule(OpFamily.ATTENTION, partial(_attention, at=arguments))
    for name, arguments in _ATTENTION_ARGUMENTS.items()
}
"""Formulas of fused attention; attention written as products counts by these."""


def _cached(op: Operands) -> Cost:
    """Keys come from a cache by blocks; how many are in use, only values of tensors say."""
    raise CachedKeysError(op.name)


OVER_A_CACHE = Rule(OpFamily.ATTENTION, _cached, composite=True)
"""Attention of serving engines over cached keys; where an op inside it computes, that one counts."""
NAMES_OVER_A_CACHE = re.compile(
    r"^(?:vllm|sglang)::unified_(?:mla_)?attention"
    r"|^(?:_C|_rocm_C|vllm|sgl_kernel|aiter|flashinfer)::\w*(?:paged_(?:attention|kv_cache_run)|pa_fwd"
    r"|mla_(?:decode|prefill)|decode_attention|extend_attention|batch_prefill|with_kv_?cache)"
)
"""Ops of vLLM, SGLang, AITER and FlashInfer that read keys and values from a cache of blocks."""


def _embedding(op: Operands) -> Cost:
    """weight, indices."""
    weight, indices = op.tensor(0), op.tensor(1)
    if len(weight.shape) != 2:
        raise UnknownOperandError(op.name)
    rows = weight.like((*indices.shape, weight.shape[1]))
    return cost(0, (indices, rows), (rows,))


def _embedding_backward(op: Operands) -> Cost:
    """gradient, indices, number of rows."""
    grad, indices, rows = op.tensor(0), op.tensor(1), op.integer(2)
    if not grad.shape or rows < 0:
        raise UnknownOperandError(op.name)
    return cost(grad.numel, (grad, indices), (grad.like((rows, grad.shape[-1])),))


def _bag_embedding(op: Operands) -> Cost:
    """weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset."""
    weight, indices, offsets = op.tensor(0), op.tensor(1), op.tensor(2)
    if len(weight.shape) != 2 or not offsets.shape:
        raise UnknownOperandError(op.name)
    weights = op.optional(6)
    last = op.has_scalar(7) and op.flags(7)[0]
    bags = max(offsets.shape[0] - (1 if last else 0), 0)
    rows = weight.like((indices.numel, weight.shape[1]))
    flops = rows.numel * (1 if weights is None else 2)
    return cost(flops, (indices, offsets, rows, weights), (weight.like((bags, weight.shape[1])),))


def _bag_backward(op: Operands) -> Cost:
    """gradient, indices, offsets, offset2bag, bag_size, maximum_indices, number of rows, ..., sparse at 9.

    A sparse gradient has a row for each index, and adds none.
    """
    grad, indices = op.tensor(0), op.tensor(1)
    rows = op.integer(6)
    if not grad.shape or rows < 0:
        raise UnknownOperandError(op.name)
    is_sparse = op.has_scalar(9) and op.flags(9)[0]
    table = grad.like((indices.numel if is_sparse else rows, grad.shape[-1]))
    flops = 0 if is_sparse else indices.numel * grad.shape[-1]
    return cost(flops, (grad, indices, op.optional(2), op.optional(3), op.optional(4)), (table,))


EMBEDDING_RULES: dict[str, Rule] = {
    "aten::embedding": Rule(OpFamily.EMBEDDING, _embedding),
    "aten::embedding_dense_backward": Rule(OpFamily.EMBEDDING, _embedding_backward),
    "aten::_embedding_bag": Rule(OpFamily.EMBEDDING, _bag_embedding),
    "aten::_embedding_bag_forward_only": Rule(OpFamily.EMBEDDING, _bag_embedding),
    "aten::_embedding_bag_backward": Rule(OpFamily.EMBEDDING, _bag_backward),
}
"""Formulas of embeddings."""


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
    """Count the elements, which are reordered, and the lists of offsets and features."""
    x = op.tensor(0)
    return cost(0, (x, *(op.optional(i) for i in range(1, 5))), (x.like(),))


FBGEMM_RULES: dict[str, Rule] = {
    "fbgemm::FloatToFP8RowwiseQuantized": Rule(OpFamily.COPY, _to_rows),
    "fbgemm::FP8RowwiseQuantizedToFloat": Rule(OpFamily.COPY, _from_rows),
    "fbgemm::FloatToHFP8Quantized": Rule(OpFamily.COPY, _to_bytes),
    "fbgemm::HFP8QuantizedToFloat": Rule(OpFamily.COPY, _from_bytes),
    "fbgemm::permute_pooled_embs": Rule(OpFamily.INDEXING, _permuted),
    "fbgemm::permute_pooled_embs_auto_grad": Rule(OpFamily.INDEXING, _permuted),
}
"""Formulas of FBGEMM ops."""

PRODUCT_RULES: dict[str, Rule] = {
    **EMBEDDING_RULES,
    **FBGEMM_RULES,
    **MATRIX_RULES,
    **CONVOLUTION_RULES,
    **ATTENTION_RULES,
}
"""By the name of the op."""
