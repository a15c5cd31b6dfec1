"""Changes of the batch and of the width of a model: work follows FLOPs and bytes, at rates that the trace shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
from msgspec import Struct

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.graph import DependencyGraph
from tracebraid.simulation.changes.reshaping import Reshaped, Reshaping, scale_collectives
from tracebraid.simulation.changes.verbs import On, Value, verb
from tracebraid.simulation.scaling import Amount, Call, Shape, amount_of, is_list
from tracebraid.simulation.structure import Structure, counts_text, numel_of

_FACTORS = {"aten::mm": (0, 1), "aten::addmm": (1, 2)}
"""Positions of the factors of products of two matrices."""
_ROWS = ("aten::linear", "aten::mkldnn_linear")
"""Products of rows and a transposed weight."""
_CONVOLUTIONS = (
    "aten::convolution",
    "aten::_convolution",
    "aten::mkldnn_convolution",
    "aten::cudnn_convolution",
)
_ON_ACTIVATIONS = (
    OpFamily.POINTWISE,
    OpFamily.SOFTMAX,
    OpFamily.NORMALISATION,
    OpFamily.LOSS,
    OpFamily.POOLING,
    OpFamily.REDUCTION,
)
"""Families that work on activations, outside of updates, even if a parameter has the same shape."""
_AGREE = 0.95
"""Share of the products' FLOPs whose rows are multiples of the batch."""


class Product(Struct, frozen=True):
    """Sizes of a product of two matrices, (m, k) x (k, n), and which pair of them are a parameter's."""

    m: int
    k: int
    n: int
    weight: str

    @property
    def rows(self) -> int:
        """The size that no parameter has."""
        return {"kn": self.m, "mk": self.n, "mn": self.k}[self.weight]


def products(structure: Structure, call: Call, batch: int | None = None) -> list[Product]:
    """Readings of a product of two matrices: each with the pair of sizes that is a parameter's."""
    at = _FACTORS.get(call.op)
    if at is None or max(at) >= len(call.inputs):
        return []
    a, b = (call.inputs[position] for position in at)
    if a is None or b is None or is_list(a) or is_list(b) or len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        return []
    m, k, n = int(a[0]), int(a[1]), int(b[1])
    pairs = {"kn": (k, n), "mn": (m, n), "mk": (m, k)}
    found = [Product(m, k, n, name) for name, pair in pairs.items() if structure.is_weight(pair)]
    return [each for each in found if batch is None or each.rows % batch == 0]


def rows_of(structure: Structure, call: Call) -> frozenset[int]:
    """Rows of activations that meet a parameter in a product: several where sizes allow several readings."""
    if call.op not in _ROWS and call.op not in _CONVOLUTIONS:
        return frozenset(each.rows for each in products(structure, call))
    x, weight = (call.inputs[at] if at < len(call.inputs) else None for at in (0, 1))
    if x is None or weight is None or is_list(x) or is_list(weight) or not structure.is_weight(weight):
        return frozenset()
    return frozenset((int(x[0]) if call.op in _CONVOLUTIONS else prod(x[:-1]),))


def batch_of(structure: Structure) -> int:
    """The size that the rows of activations have in common, and no parameter has."""
    if not structure.weights:
        raise ArgumentError(
            "scale-batch finds no parameter: neither gradients that are accumulated nor weights of products have shapes"
        )
    often = np.bincount(
        structure.call[structure.is_op & (structure.call >= 0)], minlength=len(structure.calls)
    )
    weight: Counter[frozenset[int]] = Counter()
    for call, count in zip(structure.calls, often.tolist(), strict=True):
        rows = rows_of(structure, call)
        if rows and count:
            weight[rows] += count * amount_of(call).flops
    total = sum(weight.values())
    if not total:
        raise ArgumentError(
            "scale-batch finds no product of activations with a parameter, which shows the batch"
        )
    leading = {
        shape[0] for call in structure.calls for shape in call.tensors if len(shape) > 2 and shape[0] > 1
    }
    share = {
        size: sum(of for each, of in weight.items() if any(rows % size == 0 for rows in each)) / total
        for size in {*leading, *(rows for each in weight for rows in each)}
    }
    batch = max(share, key=lambda size: (round(share[size], 3), size))
    if share[batch] < _AGREE:
        most = ", ".join(
            f"{' or '.join(map(str, sorted(rows)))} ({of / total:.0%})" for rows, of in weight.most_common(4)
        )
        raise ArgumentError(
            f"scale-batch finds no common batch: the rows of activations, by their share of FLOPs, are {most}"
        )
    return batch


@verb("scale-batch", Value.FACTOR, on=On.SHAPES)
def batch_scaled(graph: DependencyGraph, factor: float) -> Reshaped:
    """Multiply the batch: the size that rows of activations have in common, and parameters lack.

    Refused where the rows have no common size. Gradient collectives and updates stay, others scale with their bytes.
    Reading samples and all Python code stay.
    """
    shaping = Reshaping.of(graph)
    structure = shaping.structure
    batch = batch_of(structure)
    if abs(batch * factor - round(batch * factor)) > 1e-6 or round(batch * factor) < 1:
        raise ArgumentError(
            f"scale-batch {factor:g}: the batch is {batch}, and {batch * factor:g} is no whole number"
        )
    shaping.scale_ops(
        lambda call, update: amount_of(call) if update else _with_batch(structure, call, batch, factor)
    )
    scale_collectives(shaping, {}, factor)
    return shaping.finished({}, factor)


def _with_batch(structure: Structure, call: Call, batch: int, factor: float) -> Amount:
    """FLOPs and bytes with another batch; those of parameters stay."""
    amount = amount_of(call)
    carries = [_carries(structure, call, shape, batch) for shape in call.tensors]
    read = 4.0 * sum(map(prod, call.tensors))
    written = max(amount.size_bytes - read, 0.0)
    matrices = products(structure, call, batch)
    if matrices:
        weight = matrices[0].weight
        carries = [True] * len(carries)
        if weight != "mn":
            of_weight = _FACTORS[call.op][1 if weight == "kn" else 0]
            carries = [shape is not call.inputs[of_weight] for shape in call.tensors]
        written *= 1.0 if weight == "mn" else factor
    elif any(carries):
        written *= factor
    if not any(carries):
        return amount
    given = sum(
        4.0 * prod(shape) * (factor if own else 1.0) for shape, own in zip(call.tensors, carries, strict=True)
    )
    beyond = min(amount.size_bytes - read, 0.0)
    return Amount(amount.flops * factor, max(given + written + beyond * factor, 0.0))


def _carries(structure: Structure, call: Call, shape: Shape, batch: int) -> bool:
    """Return whether a tensor has a row for each sample."""
    if prod(shape) < batch or prod(shape) % batch:
        return False
    if not structure.is_weight(shape):
        return prod(shape) > 1
    return len(shape) > 1 and shape[0] % batch == 0 and call.family in _ON_ACTIVATIONS


_SPLITS = ("aten::transpose", "aten::permute", "aten::view", "aten::_unsafe_view", "aten::reshape")
"""Ops on tensors that are split into heads."""


class Width(Struct, frozen=True):
    """Sizes that follow the width of a model.

    Args:
        before: the width.
        after: the new width.
        sizes: sizes of parameters that are multiples of it.
        heads: sizes of attention heads.
    """

    before: int
    after: int
    sizes: frozenset[int]
    heads: frozenset[int]

    def size(self, size: int) -> int:
        """The new size, of one that follows."""
        return max(round(size * self.after / self.before), 1)

    def of_weight(self, shape: Shape) -> Shape:
        """A parameter with the new width."""
        return tuple(self.size(size) if size in self.sizes else size for size in shape)

    def of_activation(self, shape: Shape) -> Shape:
        """An activation with the new width: the last size follows, that of heads, or the channels of an image."""
        if len(shape) < 2:
            return shape
        at: int | None = None
        if shape[-1] in self.sizes or (len(shape) > 2 and shape[-1] in self.heads):
            at = len(shape) - 1
        elif len(shape) > 2 and shape[-2] in self.heads:
            at = len(shape) - 2
        elif len(shape) == 4 and shape[1] in self.sizes:
            at = 1
        return tuple(self.size(size) if position == at else size for position, size in enumerate(shape))


def _width_of(structure: Structure, before: int, after: int) -> Width:
    shapes = max(structure.parameters.values(), key=numel_of, default=tuple(structure.weights))
    sizes = Counter(size for shape in shapes for size in shape)
    if before not in sizes:
        raise ArgumentError(
            f"hidden: no parameter has a size of {before}; their sizes (and how often): {counts_text(sizes.elements())}"
        )
    follows = {size for size in sizes if size % before == 0 and size not in structure.vocabularies}
    if before not in follows:
        raise ArgumentError(
            f"hidden: {before} is the number of rows of an embedding; which sizes follow is not known"
        )
    heads = set(_heads(structure, before))
    for call in structure.calls:
        scores = call.tensors[0] if call.family is OpFamily.SOFTMAX and call.tensors else ()
        if len(scores) > 2 and scores[-1] == scores[-2] and scores[-1] in follows | heads:
            raise ArgumentError(
                f"hidden: {scores[-1]} is the length of sequences and follows the width too; which sizes of "
                "activations follow is not known"
            )
    return Width(before, after, frozenset(follows), frozenset(heads))


def _heads(structure: Structure, width: int) -> Iterator[int]:
    """Sizes of heads: the last of four, that together with the number of heads makes the width."""
    for call in structure.calls:
        if call.family is OpFamily.ATTENTION or call.op in _SPLITS:
            for shape in call.tensors:
                if (
                    len(shape) == 4
                    and width in (shape[-1] * shape[-2], shape[-1] * shape[-3])
                    and shape[-1] > 1
                ):
                    yield shape[-1]


@verb("hidden", Value.SIZES, on=On.SHAPES)
def with_hidden(graph: DependencyGraph, before: float, after: float) -> Reshaped:
    """Change the width of the model: all sizes of parameters that are FROM, or a multiple of it, follow.

    Vocabularies stay; heads get wider, their number stays. Updates and gradient collectives follow the size of the
    parameters, other collectives the width. Refused where no parameter has that size, or sequences have it too.
    """
    shaping = Reshaping.of(graph)
    structure = shaping.structure
    width = _width_of(structure, int(before), int(after))
    shaping.scale_ops(lambda call, update: _with_width(structure, call, width, bool(update)))
    ratio = {
        rank: numel_of(map(width.of_weight, shapes)) / numel_of(shapes)
        for rank, shapes in structure.parameters.items()
        if numel_of(shapes)
    }
    scale_collectives(shaping, ratio, after / before)
    return shaping.finished(ratio, after / before)


def _with_width(structure: Structure, call: Call, width: Width, update: bool) -> Amount:
    """FLOPs and bytes with another width."""
    before = amount_of(call)
    other = _call_with_width(structure, call, width, update)
    after = amount_of(other)
    if before.flops and not after.flops:
        was, becomes = (max(numel_of(each.tensors), 1) for each in (call, other))
        return Amount(before.flops * becomes / was, before.size_bytes * becomes / was)
    return after


def _call_with_width(structure: Structure, call: Call, width: Width, update: bool) -> Call:
    if update:
        return call.mapped(width.of_weight)
    matrices = products(structure, call)
    if not matrices:
        return call.mapped(
            lambda shape: (
                width.of_weight(shape)
                if structure.is_weight(shape) and not (len(shape) > 1 and call.family in _ON_ACTIVATIONS)
                else width.of_activation(shape)
            )
        )
    found = matrices[0]
    pair = {"kn": (found.k, found.n), "mn": (found.m, found.n), "mk": (found.m, found.k)}[found.weight]
    sizes = {"m": found.m, "k": found.k, "n": found.n}
    sizes |= zip(found.weight, width.of_weight(pair), strict=True)
    other = with_sizes(call, sizes)
    if _FACTORS[call.op][0] == 1 and isinstance(other.inputs[0], tuple) and not is_list(other.inputs[0]):
        return Call(call.op, (width.of_weight(other.inputs[0]), *other.inputs[1:]))
    return other


def with_sizes(call: Call, sizes: Mapping[str, int]) -> Call:
    """A product of two matrices, (m, k) x (k, n), with other sizes; what is added to it stays."""
    inputs = list(call.inputs)
    first, second = _FACTORS[call.op]
    inputs[first], inputs[second] = (sizes["m"], sizes["k"]), (sizes["k"], sizes["n"])
    return Call(call.op, tuple(inputs))
