"""Change of tensor parallelism: pairs of products whose weights are divided by columns and then by rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import zip_longest

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.graph import ActivityKind, DependencyGraph, Point, Ring
from tracebraid.simulation.changes.communication import communication_costs
from tracebraid.simulation.changes.new_collectives import (
    ELEMENT_BYTES,
    OF_ACTIVATIONS,
    NewCollectives,
    ring_latency,
    ring_times,
)
from tracebraid.simulation.changes.parallelism import over_ranks
from tracebraid.simulation.changes.reshaping import (
    ELEMENT_SIZES,
    Reshaped,
    Reshaping,
    activation_members,
    bytes_of_element,
    gradient_members,
    members,
    scale_collectives,
)
from tracebraid.simulation.changes.shapes import Product, products, with_sizes
from tracebraid.simulation.changes.verbs import On, Value, verb
from tracebraid.simulation.scaling import Amount, Call, Shape, amount_of
from tracebraid.simulation.structure import Phase, Structure, counts_text, numel_of

_Ints = NDArray[np.int64]

_ACTIVATION = re.compile(
    r"(?:^aten::|_)(?:gelu|relu|silu|sigmoid|tanh|threshold|clamp_min|elu|selu|hardswish|mish|softplus|glu)(?=_|$)"
)
"""Names of ops that apply a function to what a layer computes, element by element; also of fused ones of a compiler."""
_HEADS_BEFORE_LAST = re.compile(r"aten::_(flash|efficient)_attention")
"""Attention whose operands are (batch, sequence, heads, size of a head); of others heads come before the sequence."""


class _Part(IntEnum):
    """What of an op each rank of a group does."""

    WHOLE = 0
    UPDATE = 1
    """Of an update, or an accumulation of gradients: its share of the parameters."""
    EVEN = 2
    """Its share of elements, or of heads."""
    M = 3
    """Of a product (m, k) x (k, n), some of the rows."""
    K = 4
    """Some of the sum, which all ranks then add up."""
    N = 5
    """Some of the columns."""


class _Layer(Struct, frozen=True):
    """A product with a weight in a forward pass, or a node of autograd that makes the gradients of one.

    Args:
        first: position of the first op among those of the pass.
        last: position of the last.
        found: of each product, its position and its sizes.
    """

    first: int
    last: int
    found: tuple[tuple[int, Product], ...]

    @property
    def product(self) -> Product:
        """Sizes of the product, in a forward pass."""
        return self.found[-1][1]


class _Pair(Struct, frozen=True):
    """Layers divided by columns, and the one behind them divided by rows, as numbers of layers."""

    first: int
    closing: int


class _Pass(Struct, frozen=True, eq=False):
    """A pass: its ops in their order, and the layers and pairs among them."""

    ops: _Ints
    layers: Sequence[_Layer]
    pairs: Sequence[_Pair] = ()


@verb("tensor", Value.SIZES, on=On.SHAPES, network=True)
def with_tensor(graph: DependencyGraph, before: float, after: float, network: Ring | None) -> Reshaped:
    """Divide pairs of products over N ranks, by columns and then by rows; FROM is 1, or the ranks of a group.

    A pair begins with products of the same input and closes with the next behind attention or an activation function.
    All between is divided; other products stay whole. From 1, an all-reduce comes behind each pair, in backward before
    it, by the formula of a ring and the fit of the trace's all-reduces, or `network=50GB/s,5us`. Refused where no pair
    is found, the backward pass has other products, or sizes cannot be divided.
    """
    shaping = Reshaping.of(graph)
    structure, share = shaping.structure, before / after
    part = np.where(structure.in_update, _Part.UPDATE, _Part.WHOLE).astype(np.int64)
    weights: set[Shape] = set()
    sums: list[tuple[int, int]] = []
    for forward, backward in _passes(structure):
        for pair in forward.pairs:
            _check_divided(structure, forward, pair, share)
            sums += _divide(part, forward, backward, pair)
            for layer in forward.layers[pair.first : pair.closing + 1]:
                sizes = (layer.product.k, layer.product.n)
                weights |= {sizes, sizes[::-1]}
    on_device = np.flatnonzero(graph.activities.get_column("stream").is_not_null().to_numpy())
    part[on_device] = part[graph.ops_around(on_device)]
    shaping.scale_ops(lambda call, how: _divided(structure, call, _Part(how), share, weights), part)
    ratio = {
        rank: 1.0 - (1.0 - share) * numel_of(shape for shape in shapes if shape in weights) / numel_of(shapes)
        for rank, shapes in structure.parameters.items()
    }
    scale_collectives(shaping, ratio)
    if int(before) > 1:
        of_activations = activation_members(structure, gradient_members(structure))
        if not of_activations.any():
            raise ArgumentError("tensor: no collectives carry activations; give FROM as 1")
        over_ranks(shaping, "tensor", of_activations, (int(before), int(after)), network)
        return shaping.finished(ratio, _activations(structure, part, share))
    added = _all_reduces(structure, sums, int(after), network)
    return shaping.finished(ratio, _activations(structure, part, share), added)


def _passes(structure: Structure) -> Iterator[tuple[_Pass, _Pass | None]]:
    """Forward passes, each with its backward pass, if there is one."""
    found: dict[tuple[int, str], tuple[list[_Pass], list[_Pass]]] = {}
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        for stretch in structure.passes(phase):
            own = structure.graph.activities.row(int(structure.outer.activity[stretch.start]), named=True)
            of_pass = _pass(structure, stretch, phase)
            if of_pass.layers:
                found.setdefault((own["rank"], own["step"]), ([], []))[phase].append(of_pass)
    if not any(each.pairs for forward, _ in found.values() for each in forward):
        raise ArgumentError(
            "tensor: no product takes what attention or an activation function makes of another's output; which "
            "weights to divide is not known"
        )
    for forward, backward in found.values():
        layers, nodes = ([len(each.layers) for each in passes] for passes in (forward, backward))
        if backward and layers != nodes:
            raise ArgumentError(
                f"tensor: the forward passes of a step have {counts_text(layers)} products with weights, the backward "
                f"passes gradients of {counts_text(nodes)}; which belong together is not known"
            )
        yield from zip_longest(forward, backward)


def _pass(structure: Structure, stretch: slice, phase: Phase) -> _Pass:
    outer = structure.outer
    ops = structure.inside(int(outer.first[stretch.start]), int(outer.last[stretch.stop - 1]))
    ops = ops[(structure.kinds == ActivityKind.OP.value).to_numpy()[ops]]
    node = np.cumsum(np.isin(ops, outer.activity[stretch]))
    within: dict[int, list[tuple[int, Product]]] = {}
    for at in np.flatnonzero(structure.call[ops] >= 0).tolist():
        readings = products(structure, structure.calls[structure.call[ops[at]]])
        if readings:
            key = at if phase is Phase.FORWARD else int(node[at])
            within.setdefault(key, []).append((at, readings[0]))
    if phase is Phase.FORWARD:
        layers = [_Layer(at, at, tuple(found)) for at, found in within.items()]
        return _Pass(ops, layers, list(_pairs(structure, ops, layers)))
    first, last = (np.searchsorted(node, list(within), side=side).tolist() for side in ("left", "right"))
    return _Pass(
        ops, [_Layer(a, b - 1, tuple(of)) for a, b, of in zip(first, last, within.values(), strict=True)]
    )


def _pairs(structure: Structure, ops: _Ints, layers: Sequence[_Layer]) -> Iterator[_Pair]:
    first, attends, activates = -1, False, False
    outputs: set[int] = set()
    for number, layer in enumerate(layers):
        width = layer.product.k
        if first >= 0:
            between = [
                structure.calls[call]
                for call in structure.call[ops[layers[number - 1].last : layer.first]]
                if call >= 0
            ]
            attends |= any(map(_attends, between))
            activates |= any(_ACTIVATION.search(call.op) for call in between)
            # A gate may come in one product with what it gates: then half of the columns go on.
            if attends or (activates and not outputs.isdisjoint((width, 2 * width))):
                yield _Pair(first, number)
                first = -1
                continue
            if width == layers[first].product.k:
                outputs.add(layer.product.n)
                continue
        first, attends, activates, outputs = number, False, False, {layer.product.n}


def _attends(call: Call) -> bool:
    """Return whether it is attention, or its softmax: other softmaxes have no heads."""
    is_softmax = call.family is OpFamily.SOFTMAX and any(len(shape) > 2 for shape in call.tensors)
    return call.family is OpFamily.ATTENTION or is_softmax


def _check_divided(structure: Structure, forward: _Pass, pair: _Pair, share: float) -> None:
    layers = forward.layers[pair.first : pair.closing + 1]
    counts = {
        "columns of a weight": {layer.product.n for layer in layers[:-1]},
        "rows of a weight": {layers[-1].product.k},
        "heads": set[int](),
    }
    calls = structure.call[forward.ops[layers[0].first : layers[-1].last]]
    for call in (structure.calls[number] for number in calls if number >= 0):
        if _attends(call):
            at = 2 if _HEADS_BEFORE_LAST.match(call.op) else 1
            counts["heads"] |= {shape[at] for shape in call.tensors[:1] if len(shape) == 4}
    for what, sizes in counts.items():
        for size in sizes:
            if abs(size * share - round(size * share)) > 1e-6:
                raise ArgumentError(f"tensor: the {size} {what} cannot be divided equally over so many ranks")


def _divide(part: _Ints, forward: _Pass, backward: _Pass | None, pair: _Pair) -> list[tuple[int, int]]:
    """Set what of each op in a pair a rank does; return what ranks add up: behind which op, and its elements."""
    layers = forward.layers
    _set_even(part, forward.ops[layers[pair.first].first : layers[pair.closing].last + 1])
    for number in range(pair.first, pair.closing + 1):
        part[forward.ops[layers[number].last]] = _Part.K if number == pair.closing else _Part.N
    closing = layers[pair.closing]
    sums = [(int(forward.ops[closing.last]), closing.product.m * closing.product.n)]
    if backward is None:
        return sums
    # Autograd runs the nodes in the reverse order of what made them.
    nodes = backward.layers[::-1]
    _set_even(part, backward.ops[nodes[pair.closing].first : nodes[pair.first].last + 1])
    for number in range(pair.first, pair.closing + 1):
        for at, product in nodes[number].found:
            part[backward.ops[at]] = _of_gradient(product, layers[number].product, number == pair.closing)
    entering = layers[pair.first].product
    of_input = [at for at, product in nodes[pair.first].found if _is_of_input(product, entering)]
    return sums + [(int(backward.ops[at]), entering.m * entering.k) for at in of_input[:1]]


def _set_even(part: _Ints, ops: _Ints) -> None:
    part[ops[part[ops] == _Part.WHOLE]] = _Part.EVEN


def _is_of_input(product: Product, forward: Product) -> bool:
    """Return whether it makes the gradient of what a layer takes, and not of its weight."""
    return (product.m, product.k, product.n) == (forward.m, forward.n, forward.k)


def _of_gradient(product: Product, forward: Product, by_rows: bool) -> _Part:
    """What of a product in backward a rank computes, where the weight of the layer is divided by rows or by columns."""
    if _is_of_input(product, forward):
        return _Part.N if by_rows else _Part.K
    if product.k != forward.m:
        raise ArgumentError(
            f"tensor: a product with {forward.m} rows meets one with {product.k} in backward; which belong together is "
            "not known"
        )
    transposed = product.m == forward.n
    return _Part.N if by_rows == transposed else _Part.M


def _divided(structure: Structure, call: Call, part: _Part, share: float, weights: set[Shape]) -> Amount:
    amount = amount_of(call)
    if part is _Part.WHOLE:
        return amount
    if part is _Part.UPDATE:
        return amount_of(
            call.mapped(
                lambda shape: (max(round(shape[0] * share), 1), *shape[1:]) if shape in weights else shape
            )
        )
    if part is _Part.EVEN:
        return Amount(amount.flops * share, amount.size_bytes * share)
    found = products(structure, call)[0]
    sizes = {"m": found.m, "k": found.k, "n": found.n}
    divided = part.name.lower()
    return amount_of(with_sizes(call, {**sizes, divided: max(round(sizes[divided] * share), 1)}))


def _activations(structure: Structure, part: _Ints, share: float) -> float:
    """New size of what ops read besides parameters, over the old."""
    own = np.flatnonzero(structure.is_op & (structure.call >= 0) & (part != _Part.UPDATE))
    sizes = [
        numel_of(shape for shape in call.tensors if not structure.is_weight(shape))
        for call in structure.calls
    ]
    read = np.array(sizes, dtype=np.float64)[structure.call[own]]
    divided = np.isin(part[own], (_Part.EVEN, _Part.K))
    return float((read * np.where(divided, share, 1.0)).sum() / max(read.sum(), 1.0))


def _all_reduces(
    structure: Structure, sums: Iterable[tuple[int, int]], ranks: int, network: Ring | None
) -> NewCollectives:
    """The all-reduces that a job without tensor parallelism lacks."""
    graph = structure.graph
    behind, elements = (np.array(column, dtype=np.int64) for column in zip(*sums, strict=True))
    gradients = gradient_members(structure)
    size = bytes_of_element(structure, gradients)
    size_bytes = elements * (size or ELEMENT_BYTES)
    of_activations = pl.Series(activation_members(structure, gradients))
    there = graph.activities.filter(of_activations).get_column("size_bytes")
    likely = np.unique(elements) * np.array(ELEMENT_SIZES)[:, None]
    if there.is_in(likely.reshape(-1).tolist()).any():
        raise ArgumentError(
            "tensor: collectives of these traces carry what the products of pairs compute: give the ranks of their "
            "group as FROM"
        )
    basis = ShapeBasis.FITTED if network is None else ShapeBasis.GIVEN
    network = _fitted(structure) if network is None else network
    may_be_half = size is None and graph.activities.get_column("stream").is_not_null().any()
    return NewCollectives(
        OF_ACTIVATIONS,
        _last_work(graph, behind),
        None,
        size_bytes,
        basis,
        ring_times(network, ranks, size_bytes, may_be_half),
        ring_latency(network, ranks),
    )


def _last_work(graph: DependencyGraph, ops: _Ints) -> _Ints:
    """The last device work of each op; without any, the op itself."""
    work = np.flatnonzero(graph.activities.get_column("stream").is_not_null().to_numpy())
    work = work[np.argsort(graph.moments.time_ns[graph.moment_of[work, Point.END]], kind="stable")]
    last = np.arange(graph.activities.height)
    last[graph.ops_around(work)] = work
    return last[ops]


def _fitted(structure: Structure) -> Ring:
    """The network that the fit of the largest all-reduce describes."""
    types = structure.graph.activities.get_column("type").cast(pl.String)
    is_sum = members(structure) & (types == CollectiveType.ALL_REDUCE.value).fill_null(value=False).to_numpy()
    if is_sum.any():
        costs = communication_costs(structure.graph, is_sum)
        usable = costs.known & (costs.size > 1) & (costs.size_ns > 0)
        if usable.any():
            best = int(np.where(usable, costs.size_bytes, -1.0).argmax())
            links, ns_per_byte = int(costs.size[best]) - 1, costs.size_ns[best] / costs.size_bytes[best]
            return Ring(2e9 * links / (links + 1) / ns_per_byte, costs.alpha_ns[best] / (2 * links))
    raise ArgumentError(
        "tensor: how fast its all-reduces are is not known: no all-reduces of a group are in the traces in several "
        "sizes; give a network, such as network=50GB/s,5us"
    )
