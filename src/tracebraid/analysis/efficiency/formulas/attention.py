"""Attention: 2 p (d + e) FLOPs forward and 2 p (3 d + 2 e) backward, p pairs of a query and a key, a mask left aside.

d is the size of a query, e that of a value. Source: `sdpa_flop_count` and `sdpa_backward_flop_count` of
torch.utils.flop_counter, which count no softmax, and the scores that a backward pass computes again. Sequences packed
into one (varlen) are taken as equally long, since a trace has only their number: exact then, too few FLOPs otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tracebraid.analysis.efficiency.element_types import precision_of
from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule, bytes_of
from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES", "causal_pairs"]


@dataclass(frozen=True)
class _Arguments:
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


@dataclass(frozen=True)
class _Sizes:
    batch: int
    heads: int
    queries: int
    keys: int


def causal_pairs(queries: int, keys: int, ends_aligned: bool = False) -> int:
    """Number of pairs that a causal mask leaves: query i meets keys up to i, or up to i + keys - queries.

    Args:
        queries: length of the queries' sequence.
        keys: length of the keys' sequence.
        ends_aligned: the second of the two.
    """
    offset = keys - queries if ends_aligned else 0
    first = max(0, -offset)
    full = min(max(keys - offset, first), queries)
    rising = (full - first) * (first + offset + 1 + full + offset) // 2
    return rising + (queries - full) * keys


def _attention(op: Operands, at: _Arguments) -> Cost:
    query, key, value = (op.tensor(at.query + i) for i in range(3))
    sizes = _sizes(op, at, query, key)
    d, e = query.shape[-1], value.shape[-1]
    products = d + e if at.gradient is None else 3 * d + 2 * e
    whole = 2 * sizes.batch * sizes.heads * products
    flops = whole * sizes.queries * sizes.keys
    causal = None
    if at.causal is not None and op.has_scalar(at.causal) and op.flags(at.causal)[0]:
        causal = whole * causal_pairs(sizes.queries, sizes.keys, at.ends_aligned)
    scores = 2 * sizes.batch * sizes.heads * sizes.queries * sizes.keys * d
    repeated = 0 if at.gradient is None else scores
    return Cost(flops, _bytes(op, at, sizes), precision_of(query.dtype), causal, repeated)


def _sizes(op: Operands, at: _Arguments, query: Tensor, key: Tensor) -> _Sizes:
    packed = None if at.sequences is None else op.optional(at.sequences)
    rank = 3 if packed is not None and len(query.shape) == 3 else 4
    if len(query.shape) != rank or len(key.shape) != rank:
        raise UnknownOperandError(op.name)
    if packed is None:
        heads, length = (1, 2) if at.heads_first else (2, 1)
        return _Sizes(query.shape[0], query.shape[heads], query.shape[length], key.shape[length])
    batch = max(packed.numel - 1, 1)
    tokens, keys = (tensor.numel // max(_row(tensor), 1) for tensor in (query, key))
    return _Sizes(batch, query.shape[-2], tokens // batch, keys // batch)


def _row(tensor: Tensor) -> int:
    """Elements of a token."""
    return tensor.shape[-1] * tensor.shape[-2]


def _bytes(op: Operands, at: _Arguments, sizes: _Sizes) -> int | None:
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
_ARGUMENTS: dict[str, _Arguments] = {
    f"{_SDPA}flash_attention": _Arguments(causal=4),
    f"{_SDPA}flash_attention_for_cpu": _Arguments(causal=4, bias=5),
    f"{_SDPA}efficient_attention": _Arguments(causal=6, bias=3),
    f"{_SDPA}cudnn_attention": _Arguments(causal=6, bias=3),
    f"{_SDPA}fused_attention_overrideable": _Arguments(causal=5, bias=3),
    f"{_SDPA}flash_attention_backward": _Arguments(query=1, causal=11, gradient=0),
    f"{_SDPA}flash_attention_for_cpu_backward": _Arguments(query=1, causal=7, bias=8, gradient=0),
    f"{_SDPA}efficient_attention_backward": _Arguments(query=1, causal=11, bias=4, gradient=0),
    f"{_SDPA}cudnn_attention_backward": _Arguments(query=1, causal=14, bias=8, gradient=0),
    f"{_SDPA}fused_attention_overrideable_backward": _Arguments(query=1, causal=13, bias=4, gradient=0),
    "aten::_flash_attention_forward": _Arguments(causal=8, heads_first=False, sequences=3, ends_aligned=True),
    "aten::_flash_attention_backward": _Arguments(
        query=1, causal=11, heads_first=False, sequences=6, gradient=0, ends_aligned=True
    ),
    "aten::_efficient_attention_forward": _Arguments(heads_first=False, bias=3, sequences=4),
    "aten::_efficient_attention_backward": _Arguments(
        query=1, heads_first=False, bias=4, sequences=6, gradient=0
    ),
    "aten::_cudnn_attention_forward": _Arguments(causal=10, bias=3, sequences=4),
    "flash_attn::_flash_attn_forward": _Arguments(causal=5, heads_first=False, ends_aligned=True),
    "flash_attn::_flash_attn_varlen_forward": _Arguments(
        causal=9, heads_first=False, sequences=3, ends_aligned=True
    ),
    "flash_attn::_flash_attn_backward": _Arguments(
        query=1, causal=11, heads_first=False, gradient=0, ends_aligned=True
    ),
    "flash_attn::_flash_attn_varlen_backward": _Arguments(
        query=1, causal=15, heads_first=False, sequences=9, gradient=0, ends_aligned=True
    ),
}

RULES: dict[str, Rule] = {
    name: Rule(OpFamily.ATTENTION, partial(_attention, at=arguments))
    for name, arguments in _ARGUMENTS.items()
}
"""How fused attention is counted; attention written as products is counted by these."""
