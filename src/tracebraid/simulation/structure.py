"""Structure of a program, read from its ops: shapes of parameters, phases of a step, blocks that repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from math import prod

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, Point
from tracebraid.simulation.changes.move import host_moments
from tracebraid.simulation.scaling import Call, Shape, call_of, is_list

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

_BACKWARD = "autograd::engine::evaluate_function"
"""Prefix of ops in which autograd runs a node of the backward pass."""
_ACCUMULATES = "torch::autograd::AccumulateGrad"
"""The node that adds a gradient to a parameter's: its input has the shape of the parameter."""
_UPDATE = "Optimizer."
"""Prefix of annotations that PyTorch makes around steps of optimizers."""
_OP_MARK = "::"
"""Part of the names of all operators; ranges that Python code marks have none."""
REQUESTS = r"^(c10d::|_c10d_functional::|record_param_comms)"
"""Names of ops that request communication: their own time is the host's."""
_LONGEST_BLOCK = 5_000
"""Maximum outermost ops of a repeated block."""
_WHOLE = 0.9
"""Share of a stretch of ops that repeated passes cover; the rest is what comes behind the last."""
_WEIGHTS = {
    "aten::linear": 1,
    "aten::addmm": 2,
    "aten::mm": 1,
    "aten::embedding": 0,
    "aten::convolution": 1,
    "aten::conv1d": 1,
    "aten::conv2d": 1,
    "aten::conv3d": 1,
}
"""Positions of weights, for programs without a backward pass."""
_EMBEDDINGS = ("aten::embedding", "aten::embedding_bag", "aten::_embedding_bag")


class Phase(IntEnum):
    """Phase of a training step."""

    FORWARD = 0
    """All that is in neither of the others."""
    BACKWARD = 1
    UPDATE = 2
    """Steps of the optimizer."""


class OuterOps(Struct, frozen=True, eq=False):
    """Ops that no other op encloses, thread by thread in their order.

    Args:
        activity: row of `DependencyGraph.activities`.
        first: position of its start in `host_moments`.
        last: position of its end.
        phase: `Phase`.
        stretch: number of the run of consecutive ops of one thread, step and phase.
        token: equal for ops that are equal with all the ops in them.
    """

    activity: _Ints
    first: _Ints
    last: _Ints
    phase: _Ints
    stretch: _Ints
    token: _Ints

    def stretches(self, phase: Phase) -> list[slice]:
        """The stretches of a phase."""
        starts = np.flatnonzero(np.diff(self.stretch, prepend=-1))
        ends = np.append(starts[1:], len(self.stretch))[: len(starts)]
        return [
            slice(int(start), int(end))
            for start, end in zip(starts, ends, strict=True)
            if self.phase[start] == phase
        ]


class Run(Struct, frozen=True):
    """Consecutive repetitions of a block of ops.

    Args:
        start: the first op, in `OuterOps`.
        period: ops of a block.
        count: repetitions.
        within: length of the repeated block in which it lies; 0: none.
        spare: ops behind the last repetition that go on as another would: so much later the blocks may begin.
    """

    start: int
    period: int
    count: int
    within: int = 0
    spare: int = 0

    @property
    def stop(self) -> int:
        """The op behind the last repetition."""
        return self.start + self.period * self.count


class Structure(Struct, frozen=True, eq=False, dict=True):
    """The ops of a graph by their shapes.

    Args:
        graph: the graph.
        call: number of the distinct op and shapes of each activity; -1: it belongs to no op, or has no shapes.
        calls: the distinct ops with shapes.
    """

    graph: DependencyGraph
    call: _Ints
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, graph: DependencyGraph) -> Structure:
        """Read the shapes of all activities, each distinct one once."""
        columns = graph.activities.select(as_text("op"), pl.col("shapes").cast(pl.String))
        distinct = columns.drop_nulls().unique(maintain_order=True)
        found = [call_of(op, shapes) for op, shapes in distinct.iter_rows()]
        known = pl.Series([each is not None for each in found], dtype=pl.Boolean)
        distinct = distinct.filter(known).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("call"))
        numbers = columns.join(distinct, on=["op", "shapes"], how="left", maintain_order="left")
        call = numbers.get_column("call").fill_null(-1).to_numpy()
        return cls(graph, call, tuple(each for each in found if each is not None))

    @cached_property
    def moments(self) -> _Ints:
        """Moments of all threads, thread by thread: see `host_moments`."""
        return host_moments(self.graph)[0]

    @cached_property
    def kinds(self) -> pl.Series:
        """Kind of each activity, as text."""
        found: pl.Series = self.graph.activities.get_column("kind").cast(pl.String)
        return found

    @cached_property
    def names(self) -> pl.Series:
        """Name of each activity, as text."""
        found: pl.Series = self.graph.activities.get_column("name").cast(pl.String)
        return found

    @cached_property
    def is_op(self) -> _Bools:
        """Whether each activity is an operator."""
        named = self.names.str.contains(_OP_MARK, literal=True).fill_null(value=False)
        return ((self.kinds == ActivityKind.OP.value) & named).to_numpy()

    @cached_property
    def in_update(self) -> _Bools:
        """Whether each activity updates parameters, or adds to their gradients."""
        annotation = self.graph.activities.get_column("annotation").cast(pl.String)
        found: _Bools = annotation.str.starts_with(_UPDATE).fill_null(value=False).to_numpy()
        op = self.graph.activities.get_column("op").cast(pl.String)
        found |= (op == _ACCUMULATES).fill_null(value=False).to_numpy()
        return found

    @cached_property
    def leaves(self) -> _Bools:
        """Whether each activity is an operator that calls no other."""
        moments = self.moments
        activity = self.graph.moments.activity[moments]
        activity = activity[self.is_op[activity]]
        found = np.zeros(self.graph.activities.height, dtype=np.bool_)
        found[activity[:-1][activity[:-1] == activity[1:]]] = True
        return found

    @cached_property
    def outer(self) -> OuterOps:
        """The outermost ops."""
        graph = self.graph
        moments, thread = host_moments(graph)
        activity = graph.moments.activity[moments]
        is_op, is_start = self.is_op[activity], graph.moments.point[moments] == Point.START
        depth = np.cumsum(np.where(is_op, np.where(is_start, 1, -1), 0))
        first = np.flatnonzero(is_op & is_start & (depth == 1))
        last = np.flatnonzero(is_op & ~is_start & (depth == 0))
        own = activity[first]
        names = self.names.gather(pl.Series(own))
        backward = names.str.starts_with(_BACKWARD).to_numpy() if len(own) else np.zeros(0, dtype=np.bool_)
        phase = np.where(self.in_update[own], Phase.UPDATE, np.where(backward, Phase.BACKWARD, Phase.FORWARD))
        step = graph.activities.get_column("step").cast(pl.String).rank("dense").fill_null(0).to_numpy()[own]
        new = np.ones(len(own), dtype=np.bool_)
        for key in (thread[first], step, phase):
            new[1:] &= key[1:] == key[:-1]
        new = np.r_[True, ~new[1:]] if len(own) else new
        # Where a bucket of gradients is full differs from block to block.
        requests = self.names.str.contains(REQUESTS).fill_null(value=False).to_numpy()
        starts = np.flatnonzero(is_op & is_start & ~requests[activity])
        tokens = self._tokens(activity[starts], np.searchsorted(starts, first), np.searchsorted(starts, last))
        return OuterOps(own, first, last, phase.astype(np.int64), np.cumsum(new), tokens)

    def _tokens(self, started: _Ints, first: _Ints, stop: _Ints) -> _Ints:
        """Numbers of sequences of ops: equal names and shapes in equal order have equal numbers."""
        name = self.names.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
        keys = (name * (len(self.calls) + 1) + self.call + 1)[started]
        numbers: dict[bytes, int] = {}
        found = [
            numbers.setdefault(keys[begin:end].tobytes(), len(numbers))
            for begin, end in zip(first.tolist(), stop.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.int64)

    def inside(self, first: int, last: int) -> _Ints:
        """Activities of host events that start in a range of positions of `moments`."""
        moments = self.moments[first : last + 1]
        found: _Ints = self.graph.moments.activity[moments[self.graph.moments.point[moments] == Point.START]]
        return found

    @cached_property
    def parameters(self) -> Mapping[int, tuple[Shape, ...]]:
        """Shapes of the parameters of each rank, by the gradients of one backward pass; ranks without are left out."""
        rank = self.graph.activities.get_column("rank").fill_null(-1).to_numpy()
        found: dict[int, tuple[Shape, ...]] = {}
        for part in self.passes(Phase.BACKWARD):
            shapes = self.gradients(part)
            own = int(rank[self.outer.activity[part.start]])
            if numel_of(shapes) > numel_of(found.get(own, ())):
                found[own] = shapes
        return found

    def passes(self, phase: Phase) -> list[slice]:
        """Stretches of a phase; those of a thread that repeats all of the pass are cut into repetitions.

        A run that begins with the stretch holds what comes before the model's blocks, and so all of a pass.
        """
        found: list[slice] = []
        for part in self.outer.stretches(phase):
            run = _longest_run(self.outer.token[part])
            if run is None or run.start or run.stop < _WHOLE * (part.stop - part.start):
                found.append(part)
                continue
            starts = [part.start + run.period * number for number in range(run.count)]
            found += [slice(start, start + run.period) for start in starts]
        return found

    def gradients(self, part: slice | Run) -> tuple[Shape, ...]:
        """Shapes of the gradients that are accumulated in some outermost ops."""
        return tuple(shape for each in self.accumulated[part.start : part.stop] for shape in each)

    @cached_property
    def accumulated(self) -> list[tuple[Shape, ...]]:
        """Of each outermost op the shapes of the gradients that it accumulates."""
        outer = self.outer
        is_own = (self.names == _ACCUMULATES).to_numpy() & (self.call >= 0)
        position = np.empty(self.graph.activities.height, dtype=np.int64)
        moments = self.moments
        starts = self.graph.moments.point[moments] == Point.START
        position[self.graph.moments.activity[moments[starts]]] = np.flatnonzero(starts)
        found: list[tuple[Shape, ...]] = [()] * len(outer.activity)
        own = np.flatnonzero(is_own)
        for activity, op in zip(
            own, np.searchsorted(outer.first, position[own], side="right") - 1, strict=True
        ):
            found[op] += self.calls[self.call[activity]].tensors[:1]
        return found

    @cached_property
    def weights(self) -> frozenset[Shape]:
        """Shapes of all parameters: without a backward pass, of the weights of products."""
        known = {shape for shapes in self.parameters.values() for shape in shapes}
        if known:
            return frozenset(known)
        for call in self.calls:
            at = _WEIGHTS.get(call.op)
            shape = None if at is None or at >= len(call.inputs) else call.inputs[at]
            if shape is not None and not is_list(shape):
                known.add(shape)
        return frozenset(known)

    @cached_property
    def vocabularies(self) -> frozenset[int]:
        """Numbers of rows of embeddings."""
        tables = [call.tensors[0] for call in self.calls if call.op in _EMBEDDINGS and call.tensors]
        return frozenset(table[0] for table in tables if len(table) == 2)

    def is_weight(self, shape: Shape) -> bool:
        """Return whether a parameter, or its transpose, has this shape."""
        return shape in self.weights or shape[::-1] in self.weights


def numel_of(shapes: Iterable[Shape]) -> int:
    """Number of elements of all."""
    return sum(map(prod, shapes))


def repeated_runs(tokens: _Ints) -> list[Run]:
    """Blocks that repeat in a sequence: the longest run, those before and behind it, and those in each repetition."""
    found: list[Run] = []
    pending = [(0, len(tokens), 1, 0)]
    while pending:
        start, stop, times, period = pending.pop()
        run = _longest_run(tokens[start:stop])
        if run is None:
            continue
        found += [
            replace(run, start=start + run.start + again * period, within=period) for again in range(times)
        ]
        first = start + run.start
        pending += [(start, first, times, period), (first + run.period * run.count, stop, times, period)]
        if times == 1:
            pending.append((first, first + run.period, run.count, run.period))
    return sorted(found, key=lambda run: run.start)


def _longest_run(tokens: _Ints) -> Run | None:
    best: Run | None = None
    covered = 0
    for period in range(1, min(len(tokens) // 2, _LONGEST_BLOCK) + 1):
        same = tokens[period:] == tokens[:-period]
        if same.sum() < max(period, covered - period + 1):
            continue
        bounds = np.flatnonzero(np.diff(np.r_[False, same, False].astype(np.int8)))
        lengths = bounds[1::2] - bounds[::2]
        at = int(lengths.argmax())
        length = int(lengths[at])
        if length >= period and length + period > covered:
            covered = length + period
            best = Run(int(bounds[2 * at]), period, covered // period, spare=covered % period)
    return best


def most_blocks(structure: Structure) -> int:
    """How often a forward pass repeats the model's block; 0: it repeats none with a product."""
    kept: dict[bytes, list[Run]] = {}
    stretches = structure.outer.stretches(Phase.FORWARD)
    return max((run.count for part in stretches for run in repeated_blocks(structure, part, kept)), default=0)


def repeated_blocks(structure: Structure, part: slice, kept: dict[bytes, list[Run]]) -> list[Run]:
    """Repetitions of blocks with a product that are most of what they are in; equal parts are looked at once."""
    tokens = structure.outer.token[part]
    if (key := tokens.tobytes()) not in kept:
        kept[key] = repeated_runs(tokens)
    runs = [replace(run, start=part.start + run.start) for run in kept[key]]
    return [
        run
        for run in runs
        if _is_dominant(run) and has_products(structure, slice(run.start, run.start + run.period))
    ]


def _is_dominant(run: Run) -> bool:
    """Return whether a run in a longer block is most of it: so is a model's in a pass, and not what a layer repeats."""
    return 2 * run.period * run.count > run.within


def has_products(structure: Structure, part: slice) -> bool:
    """Return whether some outermost ops contain a product."""
    outer = structure.outer
    activity = structure.inside(int(outer.first[part.start]), int(outer.last[part.stop - 1]))
    calls = np.unique(structure.call[activity])
    return any(structure.calls[call].is_product for call in calls[calls >= 0].tolist())


def counts_text(counts: Iterable[int]) -> str:
    """The most frequent numbers as text, with how often each occurs."""
    found = Counter(counts).most_common(5)
    return ", ".join(f"{number} ({often})" for number, often in found) or "none"
