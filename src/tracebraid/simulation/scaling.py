"""Time of an op at another shape: from its FLOPs and bytes, and rates that the trace shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.efficiency.operands import Operands, Tensor, UnknownOperandError
from tracebraid.analysis.efficiency.rules import cost_of, rule_of
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.answers.graph import ShapeBasis

if TYPE_CHECKING:
    from typing_extensions import TypeIs

_Floats = NDArray[np.float64]

Shape = tuple[int, ...]

_ELEMENT = "float"
"""Type that elements are taken to have: a graph holds shapes alone, and amounts are used as ratios."""

_PRODUCTS = (OpFamily.MATMUL, OpFamily.CONVOLUTION, OpFamily.ATTENTION)
"""Families whose time follows their FLOPs; that of all others follows their bytes."""

_CONVOLUTIONS = {
    "aten::convolution": (0, 1),
    "aten::_convolution": (0, 1),
    "aten::mkldnn_convolution": (0, 1),
    "aten::thnn_conv2d": (0, 1),
    "aten::_slow_conv2d_forward": (0, 1),
    "aten::cudnn_convolution": (0, 1),
    "aten::miopen_convolution": (0, 1),
    "aten::convolution_backward": (1, 2),
    "aten::mkldnn_convolution_backward": (1, 2),
}
"""Positions of input and weight of convolutions. Strides are not in a graph; FLOPs are those of stride 1."""

_LEAST_SHAPES = 3
"""Distinct amounts of work that a fit needs."""
_LEAST_RANGE = 4.0
"""Greatest amount over the least that a fit needs."""
_MOST_ERROR = 0.15
"""Mean relative error of a fit above which ratios are used instead."""
_PRODUCTS_CLASS = "matrix products"
_STREAMING = (OpFamily.POINTWISE, OpFamily.COPY, OpFamily.OPTIMIZER)
"""Families of which the fastest ops do nothing but stream through their tensors."""
_LARGE_BYTES = 65_536
"""Bytes from which streaming takes longer than the overhead of an op: 2 to 10 us on a CPU."""
_FASTEST = 0.1
"""Quantile of the times for a byte, the low end: that of ops which only stream."""
_MOVES = {False: 4.0, True: 1.0}
"""Times of streaming that a product spends on its operands, on a host (it packs them) and on a device.

Chosen with small batches of an MLP and a transformer on CPUs."""
_TRUST = 0.1
"""Weight of that in fits, as a share of the samples'."""
_PASSES = 4.0
"""Times of streaming that a pointwise op, a norm or a softmax takes at most beyond its overhead, if it is small."""
_MOST_OVERHEAD_NS = {False: 50_000, True: 10_000}
"""Maximum time of an op, on a host and on a device, that does not depend on its shape."""
_UNSURE = 3.0
"""Factor by which both may be off."""
_DOUBT = {
    ShapeBasis.FITTED: 0.1,
    ShapeBasis.SCALED: 0.25,
    ShapeBasis.REPEATED: 0.1,
    ShapeBasis.UNCHANGED: 0.0,
}
"""Half width of the interval as a share of the change of time, at least: chosen, not measured."""


class Call(Struct, frozen=True):
    """An op and the shapes of its inputs.

    Args:
        op: its name.
        inputs: of each argument the shape of a tensor, the shapes of a list of tensors, or None for neither.
    """

    op: str
    inputs: tuple[Shape | tuple[Shape, ...] | None, ...]

    @property
    def tensors(self) -> tuple[Shape, ...]:
        """Shapes of all tensors, those of lists too."""
        found: list[Shape] = []
        for each in self.inputs:
            if is_list(each):
                found += each
            elif each is not None:
                found.append(each)
        return tuple(found)

    @property
    def family(self) -> OpFamily | None:
        """Kind of work; None: no rule knows the op, or the ops in it count instead."""
        rule = rule_of(self.op)
        if self.op in _CONVOLUTIONS:
            return OpFamily.CONVOLUTION
        return None if rule is None or rule.composite else rule.family

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product, a convolution or attention."""
        return self.family in _PRODUCTS

    def mapped(self, shape_of: Callable[[Shape], Shape]) -> Call:
        """The same op with other shapes."""
        inputs = [
            None if each is None else tuple(map(shape_of, each)) if is_list(each) else shape_of(each)
            for each in self.inputs
        ]
        return Call(self.op, tuple(inputs))


def is_list(shape: Shape | tuple[Shape, ...] | None) -> TypeIs[tuple[Shape, ...]]:
    """Return whether these are the shapes of a list of tensors."""
    return isinstance(shape, tuple) and len(shape) > 0 and isinstance(shape[0], tuple)


def call_of(op: str, shapes: str) -> Call | None:
    """An op from the JSON text of its shapes; None where that is damaged."""
    try:
        found = json.loads(shapes)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list):
        return None
    return Call(op, tuple(_shape(each) for each in found))


def _shape(sizes: object) -> Shape | tuple[Shape, ...] | None:
    if not isinstance(sizes, list) or not sizes:
        return None
    if all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
        return tuple(sizes)
    shapes = [_shape(each) for each in sizes]
    return tuple(each for each in shapes if each is not None and not is_list(each)) or None


class Amount(Struct, frozen=True):
    """Work of an op: FLOPs and bytes, of elements of 4 bytes."""

    flops: float
    size_bytes: float


def amount_of(call: Call) -> Amount:
    """FLOPs and bytes of an op; where no rule knows them, the bytes of its inputs."""
    given = 4.0 * sum(map(prod, call.tensors))
    if call.op in _CONVOLUTIONS:
        return _convolution(call, given)
    rule = rule_of(call.op)
    if rule is None:
        return Amount(0.0, given)
    values = tuple(_tensors(each) for each in call.inputs)
    try:
        found = cost_of(rule, Operands(call.op, values))
    except (UnknownOperandError, IndexError):
        return Amount(0.0, given)
    return Amount(float(found.flops or 0), float(given if found.size_bytes is None else found.size_bytes))


def _tensors(shape: Shape | tuple[Shape, ...] | None) -> Tensor | tuple[Tensor, ...] | None:
    if shape is None:
        return None
    if is_list(shape):
        return tuple(Tensor(each, _ELEMENT) for each in shape)
    return Tensor(shape, _ELEMENT)


def _convolution(call: Call, given: float) -> Amount:
    x, weight = (call.inputs[at] if at < len(call.inputs) else None for at in _CONVOLUTIONS[call.op])
    if x is None or weight is None or is_list(x) or is_list(weight) or len(x) < 3 or len(weight) < 3:
        return Amount(0.0, given)
    return Amount(2.0 * x[0] * prod(x[2:]) * prod(weight), given)


class Scaled(Struct, frozen=True):
    """Time at the new amount over that at the old: predicted, lowest and highest."""

    factor: float
    low: float
    high: float
    basis: ShapeBasis


UNCHANGED = Scaled(1.0, 1.0, 1.0, ShapeBasis.UNCHANGED)


def doubtful(factor: float, basis: ShapeBasis, error: float = 0.0) -> Scaled:
    """A factor with its interval: a share of the change, at least the error of the fit."""
    half = max(_DOUBT[basis], error) * abs(factor - 1.0)
    return Scaled(factor, max(factor - half, 0.0), factor + half, basis)


class Rates(Struct, frozen=True, eq=False):
    """How the time of ops follows their amounts.

    Args:
        overhead_ns: time of the smallest ops, which does not depend on shapes.
        overheads_ns: the same by class of ops, where two shapes show it.
        stream_ns: ns for a byte of ops that only stream through large tensors; 0: there are none.
        fits: coefficients of (1, FLOPs, bytes) and the mean relative error, by class of ops.
        on_device: whether the ops are those of devices.
    """

    overhead_ns: float
    overheads_ns: Mapping[str, float]
    stream_ns: float
    fits: Mapping[str, tuple[_Floats, float]]
    on_device: bool = False

    @classmethod
    def of(cls, calls: Sequence[tuple[Call, Amount, float]], on_device: bool = False) -> Rates:
        """Fit rates to calls: each with its amount and its median time in ns."""
        samples: dict[str, list[tuple[float, float, float]]] = {}
        streams: list[float] = []
        overhead_ns = min((time_ns for _, _, time_ns in calls if time_ns > 0), default=0.0)
        for call, amount, time_ns in calls:
            if time_ns > 0:
                samples.setdefault(class_of(call), []).append((amount.flops, amount.size_bytes, time_ns))
                if call.family in _STREAMING and amount.size_bytes >= _LARGE_BYTES:
                    streams.append((time_ns - overhead_ns) / amount.size_bytes)
        stream_ns = float(np.quantile(streams, _FASTEST)) if streams else 0.0
        moved_ns = _moves(on_device) * stream_ns
        tables = {name: _medians(np.array(rows)) for name, rows in samples.items()}
        fits = {
            name: fit
            for name, table in tables.items()
            if (fit := _fit(*table, moved_ns if name == _PRODUCTS_CLASS else 0.0)) is not None
        }
        overheads = {name: _overhead(*table) for name, table in tables.items()}
        known = {name: overhead for name, overhead in overheads.items() if overhead is not None}
        return cls(overhead_ns, known, stream_ns, fits, on_device)

    def scaled(self, call: Call, before: Amount, after: Amount, time_ns: float) -> Scaled:
        """Predict the time of an op that now takes this long, with another amount of work."""
        if before == after or time_ns <= 0:
            return UNCHANGED
        fit = self.fits.get(class_of(call))
        if fit is not None:
            coefficients, error = fit
            was, becomes = (
                float(coefficients @ np.array([1.0, amount.flops, amount.size_bytes]))
                for amount in (before, after)
            )
            if was > 0:
                return doubtful(becomes / was, ShapeBasis.FITTED, error)
        if before.size_bytes <= 0:
            return UNCHANGED
        if call.is_product and before.flops > 0:
            return self._product(call, before, after, time_ns)
        return self._streamed(call, before, after, time_ns)

    def _product(self, call: Call, before: Amount, after: Amount, time_ns: float) -> Scaled:
        """Part of the time follows bytes, as fast as they are streamed, the rest FLOPs."""
        fixed = min(self._overhead_ns(call), time_ns)
        most = _moves(self.on_device) * self.stream_ns * before.size_bytes

        def factor(moved_ns: float) -> float:
            moved = min(moved_ns, time_ns - fixed)
            rest = time_ns - fixed - moved
            work = moved * after.size_bytes / before.size_bytes + rest * after.flops / before.flops
            return (fixed + work) / time_ns

        return _between(factor(most), factor(_UNSURE * most), factor(0.0))

    def _streamed(self, call: Call, before: Amount, after: Amount, time_ns: float) -> Scaled:
        """The time follows bytes, but for an overhead: of a small op, all beyond some times its streaming."""
        growth = after.size_bytes / before.size_bytes - 1.0
        beyond = max(time_ns - self._overhead_ns(call), 0.0)
        if class_of(call) in self.overheads_ns or not self.stream_ns:
            return doubtful(1.0 + growth * beyond / time_ns, ShapeBasis.SCALED)
        least = max(time_ns - _MOST_OVERHEAD_NS[self.on_device], 0.0)
        streamed = self.stream_ns * before.size_bytes
        work, low, high = (
            min(max(least, part * streamed), beyond) for part in (_PASSES, 1.0, _UNSURE * _PASSES)
        )
        return _between(*(1.0 + growth * part / time_ns for part in (work, low, high)))

    def _overhead_ns(self, call: Call) -> float:
        return self.overheads_ns.get(class_of(call), self.overhead_ns)


def _between(factor: float, one: float, other: float) -> Scaled:
    """A factor whose interval holds two others, and is at least the usual one."""
    usual = doubtful(factor, ShapeBasis.SCALED)
    low, high = min(usual.low, one, other), max(usual.high, one, other)
    return Scaled(factor, low, high, ShapeBasis.SCALED)


def _moves(on_device: bool) -> float:
    """How often a product moves its operands, by the time that streaming takes."""
    return _MOVES[on_device]


def class_of(call: Call) -> str:
    """Ops of a class have one rate: all matrix products, else those of a name."""
    return _PRODUCTS_CLASS if call.family is OpFamily.MATMUL else call.op


def _medians(rows: _Floats) -> tuple[_Floats, _Floats, _Floats]:
    """FLOPs, bytes and the median time of each distinct amount."""
    table = pl.DataFrame(rows, schema=["flops", "bytes", "ns"], orient="row")
    table = table.group_by("flops", "bytes", maintain_order=True).agg(pl.col("ns").median())
    flops, size_bytes, time_ns = (table.get_column(name).to_numpy() for name in table.columns)
    return flops, size_bytes, time_ns


def _leading(flops: _Floats, size_bytes: _Floats) -> _Floats | None:
    """What the time follows most, if its amounts differ enough to show it."""
    leading = flops if (flops > 0).all() else size_bytes
    return leading if 0 < _LEAST_RANGE * leading.min() <= leading.max() else None


def _overhead(flops: _Floats, size_bytes: _Floats, time_ns: _Floats) -> float | None:
    """The time that a line through the least and the greatest amount leaves to none."""
    leading = _leading(flops, size_bytes)
    if leading is None:
        return None
    least, most = int(leading.argmin()), int(leading.argmax())
    slope = max(float((time_ns[most] - time_ns[least]) / (leading[most] - leading[least])), 0.0)
    return max(float(time_ns[least] - slope * leading[least]), 0.0)


def _fit(
    flops: _Floats, size_bytes: _Floats, time_ns: _Floats, moved_ns: float
) -> tuple[_Floats, float] | None:
    """The best line without negative coefficients; None: too few amounts, too alike, or it does not fit.

    Where FLOPs and bytes of the samples rise alike, they do not tell rates apart: then a byte takes `moved_ns`, if that
    is above 0.
    """
    leading = _leading(flops, size_bytes)
    if leading is None or len(np.unique(leading)) < _LEAST_SHAPES:
        return None
    # Columns of about equal size, and errors relative to the time.
    design = np.column_stack([np.ones_like(time_ns), flops, size_bytes])
    unit = np.maximum(design.max(axis=0), 1.0)
    weighted = design / unit / time_ns[:, None]
    wanted = np.ones_like(time_ns)
    if moved_ns > 0:
        weighted = np.vstack([weighted, [0.0, 0.0, _TRUST * len(time_ns) ** 0.5 / unit[2] / moved_ns]])
        wanted = np.append(wanted, _TRUST * len(time_ns) ** 0.5)
    best: tuple[float, _Floats] | None = None
    for columns in (chosen for count in (1, 2, 3) for chosen in combinations(range(3), count)):
        part = weighted[:, columns]
        if len(columns) >= len(time_ns) or columns == (0,) or not part.any(axis=0).all():
            continue
        values = np.linalg.lstsq(part, wanted, rcond=None)[0]
        lost = float(np.square(part @ values - wanted).sum())
        if (values >= 0).all() and (best is None or lost < best[0] * (1 - 1e-9)):
            coefficients = np.zeros(3)
            coefficients[list(columns)] = values / unit[list(columns)]
            best = lost, coefficients
    if best is None:
        return None
    error = float(np.abs(design @ best[1] / time_ns - 1.0).mean())
    return (best[1], error) if error <= _MOST_ERROR else None
