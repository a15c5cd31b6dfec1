"""Change of a job without stages into a pipeline: how long it takes, and which stage does what."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.collectives import BETWEEN_TWO, CollectiveType
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import Change, DependencyGraph
from tracebraid.model.pipeline import ALL_STAGES, PipelineWork, positions_of_passes
from tracebraid.model.quantities import numbers_text
from tracebraid.simulation.changes.move import asked_by
from tracebraid.simulation.changes.new_collectives import ELEMENT_BYTES
from tracebraid.simulation.changes.reshaping import (
    Range,
    Reshaped,
    Reshaping,
    bytes_of_element,
    gradient_members,
    members,
    range_of,
    scale_collectives,
    scale_ranges,
)
from tracebraid.simulation.changes.verbs import On, Value, verb
from tracebraid.simulation.scaling import Shape, doubtful
from tracebraid.simulation.structure import (
    Phase,
    Run,
    Structure,
    has_products,
    most_blocks,
    numel_of,
    repeated_blocks,
)

_Ints = NDArray[np.int64]


@verb("pipeline", Value.SIZES, on=On.SHAPES, stages=True)
def with_stages(graph: DependencyGraph, before: float, after: float) -> Reshaped:
    """Split the model of each rank into stages, in the order of 1F1B; FROM is 1.

    Stages have whole blocks of ops that the forward pass repeats, and of what else is in a pass the same share. The
    passes of m micro-batches (the backward passes of a step) take as long as one through all stages, and m - 1 times
    the longest stage; updates and gradient collectives take its share. Sends between stages are not counted. Refused
    where the trace has stages, and where blocks are fewer than these.
    """
    shaping = Reshaping.of(graph)
    structure = shaping.structure
    _check_no_stages(graph, before)
    batches, sizes = _micro_batches(structure), _sizes(structure, int(after))
    share = max(sizes) / sum(sizes)
    of_passes = (1 + (batches - 1) * share) / batches
    ranges: list[Range] = []
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        scaled = doubtful(of_passes, ShapeBasis.SCALED)
        parts = [part for part in structure.outer.stretches(phase) if has_products(structure, part)]
        ranges += [range_of(structure, part, scaled, f"{phase.name.lower()} passes") for part in parts]
    stages = dict.fromkeys(structure.parameters, share)
    updates = doubtful(share, ShapeBasis.SCALED)
    ranges += [
        range_of(structure, part, updates, "updates") for part in structure.outer.stretches(Phase.UPDATE)
    ]
    scale_ranges(shaping, ranges)
    scale_collectives(shaping, stages, repeats=True)
    return shaping.finished(stages, min(batches, after) * share)


def _check_no_stages(graph: DependencyGraph, before: float | None) -> None:
    types = graph.activities.get_column("type").cast(pl.String)
    if types.is_in([kind.value for kind in BETWEEN_TWO]).any():
        raise ArgumentError("pipeline: ranks send and receive: only a job without stages can be split")
    if before != 1:
        raise ArgumentError("pipeline: the traces show one stage: give 1->N")


def _sizes(structure: Structure, stages: int) -> list[int]:
    """Blocks of each stage: the first have one more where they are no multiple of the stages."""
    blocks = most_blocks(structure)
    if not blocks:
        raise ArgumentError(
            "pipeline: no forward pass repeats a block of ops; which ops a stage has is not known"
        )
    if stages > blocks:
        raise ArgumentError(
            f"pipeline: the forward pass repeats a block {blocks} times: give at most 1->{blocks}"
        )
    return [blocks // stages + (stage < blocks % stages) for stage in range(stages)]


def _micro_batches(structure: Structure) -> float:
    """Backward passes of a step: the median over ranks and steps."""
    passes = [part for part in structure.passes(Phase.BACKWARD) if has_products(structure, part)]
    if not passes:
        raise ArgumentError(
            "pipeline: no backward pass is in the traces, which shows the micro-batches of a step"
        )
    own = structure.outer.activity[[part.start for part in passes]]
    rows = structure.graph.activities.select("rank", "step")[pl.Series(own)]
    found = rows.group_by("rank", "step").len().get_column("len").median()
    assert isinstance(found, float), "there are passes"
    return found


class _Pass(Struct, frozen=True, eq=False):
    """A backward pass and the forward pass before it.

    Args:
        step: their step.
        forward: outermost ops of the forward pass.
        backward: those of the backward pass.
        blocks: the blocks of the forward pass.
        blocks_back: those of the backward pass, in its order; one at an end may be another than the rest.
    """

    step: str | None
    forward: slice
    backward: slice
    blocks: Run
    blocks_back: Run

    def first_of_stage(self, sizes: list[int], stage: int) -> tuple[int, int]:
        """The outermost ops at which a stage begins in the forward and the backward pass."""
        layer, run, back = sum(sizes[:stage]), self.blocks, self.blocks_back
        first = self.forward.start if stage == 0 else run.start + run.period * layer
        if stage == len(sizes) - 1:
            return first, self.backward.start
        before = sum(sizes) - layer - sizes[stage]
        if back.count < run.count and back.start - self.backward.start >= self.backward.stop - back.stop:
            before -= 1
        return first, min(back.start + back.period * before, self.backward.stop - 1)


def pipeline_work(
    graph: DependencyGraph, times_ns: _Ints, change: Change, of_activations: float
) -> dict[int, PipelineWork]:
    """Divide the work of each rank over stages, each of which has whole blocks of the forward pass.

    Args:
        graph: the graph.
        times_ns: start and end of each activity.
        change: which makes stages.
        of_activations: new size of what goes from block to block, over that in the traces.

    Raises:
        ArgumentError: passes do not repeat a block, or fewer than there are stages, or a rank has none.
    """
    structure = Structure.of(graph)
    _check_no_stages(graph, change.before)
    _micro_batches(structure)
    sizes = _sizes(structure, int(change.value or 1))
    gradients = gradient_members(structure)
    size = bytes_of_element(structure, gradients) or ELEMENT_BYTES
    found = {}
    for rank, passes in _passes(structure, sum(sizes), times_ns).items():
        work = _of_rank(structure, times_ns, rank, passes, sizes)
        found[rank] = replace(
            work,
            share=_shares(structure, passes, work, times_ns),
            message_bytes=round(of_activations * size * _elements_passed(structure, passes[0].blocks)),
        )
        found[rank] = _with_communication(structure, gradients, found[rank], (rank, times_ns))
    without = sorted(set(graph.activities.get_column("rank").drop_nulls().to_list()) - set(found))
    if without:
        raise ArgumentError(f"pipeline: ranks {numbers_text(without)} have no backward pass to divide")
    return found


def _passes(structure: Structure, blocks: int, times_ns: _Ints) -> dict[int, list[_Pass]]:
    """The passes of each rank by time."""
    outer, table = structure.outer, structure.graph.activities
    starts_ns = times_ns[outer.activity, 0]
    own = table.select(pl.col("rank").fill_null(-1), pl.col("step").cast(pl.String))[
        pl.Series(outer.activity)
    ]
    rank, step = own.get_column("rank").to_numpy(), own.get_column("step").to_list()
    kept: dict[bytes, list[Run]] = {}
    parts = [part for part in structure.passes(Phase.BACKWARD) if has_products(structure, part)]
    parts.sort(key=lambda part: (rank[part.start], starts_ns[part.start]))
    of_rank: dict[int, list[slice]] = {}
    for part in parts:
        of_rank.setdefault(int(rank[part.start]), []).append(part)
    forward: dict[tuple[int, int], tuple[slice, Run]] = {}
    for whole in structure.outer.stretches(Phase.FORWARD):
        own_rank = int(rank[whole.start])
        begins_ns = starts_ns[[part.start for part in of_rank.get(own_rank, [])]]
        before = np.searchsorted(begins_ns, starts_ns[whole])
        for number in np.unique(before).tolist():
            at = whole.start + np.flatnonzero(before == number)
            part = slice(int(at[0]), int(at[-1]) + 1)
            runs = [run for run in repeated_blocks(structure, part, kept) if run.count == blocks]
            if runs and number < len(begins_ns) and step[of_rank[own_rank][number].start] == step[part.start]:
                forward[own_rank, number] = part, _at_border(structure, runs[0])
    found: dict[int, list[_Pass]] = {}
    for own_rank, backward in of_rank.items():
        for number, part in enumerate(backward):
            runs = [run for run in repeated_blocks(structure, part, kept) if 0 <= blocks - run.count <= 1]
            if not runs or (own_rank, number) not in forward:
                phase = "forward" if runs else "backward"
                raise ArgumentError(
                    f"pipeline: not each {phase} pass repeats a block {blocks} times, so whole blocks cannot be divided"
                )
            first, run = forward[own_rank, number]
            back = max(runs, key=lambda each: each.count)
            found.setdefault(own_rank, []).append(_Pass(step[part.start], first, part, run, back))
    return found


def _at_border(structure: Structure, run: Run) -> Run:
    """The same blocks, each from behind the op on that reads most of those that may end it: the sum of a residual."""
    read = [numel_of(_tensors_read(structure, run.start + op)) for op in range(run.period)]
    first = max(range(run.spare + 1), key=lambda op: (read[op - 1], -op))
    return replace(run, start=run.start + first)


def _elements_passed(structure: Structure, run: Run) -> int:
    """Elements of the tensor that goes from block to block: of the shape that most of its ops read, else the first."""
    read = [_tensors_read(structure, run.start + op) for op in range(run.period)]
    shapes = Counter(found[0] for found in read if found)
    return numel_of([shape for shape, _ in shapes.most_common(1)])


def _tensors_read(structure: Structure, op: int) -> list[Shape]:
    """The first tensor with several dimensions that an outermost op reads, and others of that shape.

    Which have the shape of a parameter does not matter: a batch may have it, too.
    """
    outer = structure.outer
    calls = structure.call[structure.inside(int(outer.first[op]), int(outer.last[op]))]
    for call in calls[calls >= 0].tolist():
        tensors = [shape for shape in structure.calls[call].tensors if len(shape) > 1]
        if tensors:
            return [shape for shape in tensors if shape == tensors[0]]
    return []


class _Interval(NamedTuple):
    """Part of the host's time: the work that is issued in it belongs to a block and a stage."""

    start_ns: int
    block: int
    stage: int
    is_update: bool


def _of_rank(
    structure: Structure, times_ns: _Ints, rank: int, passes: list[_Pass], sizes: list[int]
) -> PipelineWork:
    """Divide the work of a rank, without what it communicates."""
    stages = len(sizes)
    intervals = [_Interval(np.iinfo(np.int64).min, 0, ALL_STAGES, is_update=False)]
    micro_batch, forward, order = [[-1]], [[False]], [np.zeros((stages, 1), dtype=np.int64)]
    for _, group in groupby(enumerate(passes), key=lambda each: each[1].step):
        numbers, own = zip(*group, strict=True)
        block = sum(map(len, micro_batch))
        intervals += _intervals(structure, own, sizes, block, times_ns)
        micro_batch.append([*np.repeat(numbers, 2).tolist(), -1])
        forward.append([True, False] * len(own) + [False])
        order += [
            block + positions_of_passes(stages, len(own)),
            np.full((stages, 1), block + 2 * len(own)),
        ]
    starts_ns, blocks, of_stage, is_update = zip(
        *sorted([*intervals, *_updates(structure, rank, intervals, times_ns)]), strict=True
    )
    return PipelineWork(
        np.array(starts_ns),
        np.array(blocks),
        np.array(of_stage),
        np.array(is_update),
        np.concatenate(micro_batch),
        np.concatenate(forward),
        np.hstack(order),
    )


def _intervals(
    structure: Structure, passes: Sequence[_Pass], sizes: list[int], block: int, times_ns: _Ints
) -> Iterator[_Interval]:
    """Those of the passes of a step; what is issued before a forward pass belongs to it, but for the first."""
    starts_ns, ends_ns = times_ns[structure.outer.activity].T
    until_ns = None
    for number, each in enumerate(passes):
        begins_ns = starts_ns[[each.first_of_stage(sizes, stage) for stage in range(len(sizes))]]
        if until_ns is not None:
            begins_ns[0, 0] = until_ns
        for stage, begin_ns in enumerate(begins_ns[:, 0].tolist()):
            yield _Interval(begin_ns, block + 2 * number, stage, is_update=False)
        for stage, begin_ns in reversed(list(enumerate(begins_ns[:, 1].tolist()))):
            yield _Interval(begin_ns, block + 2 * number + 1, stage, is_update=False)
        until_ns = int(ends_ns[each.backward.stop - 1])
    assert until_ns is not None, "a step has passes"
    yield _Interval(until_ns, block + 2 * len(passes), ALL_STAGES, is_update=False)


def _updates(
    structure: Structure, rank: int, intervals: list[_Interval], times_ns: _Ints
) -> Iterator[_Interval]:
    """Those in which parameters are updated between passes, and those behind them."""
    starts_ns, ends_ns = times_ns[structure.outer.activity].T
    begins_ns = [each.start_ns for each in intervals]
    ranks = structure.graph.activities.get_column("rank").fill_null(-1).to_numpy()[structure.outer.activity]
    for part in structure.outer.stretches(Phase.UPDATE):
        if ranks[part.start] != rank:
            continue
        around = intervals[bisect_right(begins_ns, starts_ns[part.start]) - 1]
        if around.stage != ALL_STAGES:
            raise ArgumentError(
                "pipeline: parameters are updated between the passes of a step, which stages do in another order; are "
                "steps marked?"
            )
        yield around._replace(start_ns=int(starts_ns[part.start]), is_update=True)
        yield around._replace(start_ns=int(ends_ns[part.stop - 1]))


def _shares(
    structure: Structure, passes: list[_Pass], work: PipelineWork, times_ns: _Ints
) -> tuple[float, ...]:
    """Share of each stage of the parameters, by the gradients that are accumulated in its part of backward passes."""
    stages = len(work.order)
    sums = np.zeros(stages)
    for each in passes:
        ops = np.arange(each.backward.start, each.backward.stop)
        of_stage = work.stage[work.interval_of(times_ns[structure.outer.activity[ops], 0])]
        np.add.at(sums, of_stage, [numel_of(structure.accumulated[op]) for op in ops.tolist()])
    return tuple((sums / sums.sum()).tolist()) if sums.sum() else (1.0 / stages,) * stages


def _with_communication(
    structure: Structure, gradients: NDArray[np.bool_], work: PipelineWork, of_rank: tuple[int, _Ints]
) -> PipelineWork:
    """Add the communication of a rank: stages have buckets of their own, and a share of what is between passes."""
    graph, (rank, times_ns) = structure.graph, of_rank
    table = graph.activities.select("rank", "event_id", as_text("type"))
    is_own = table.select((pl.col("rank") == rank) & pl.col("event_id").is_not_null()).to_series().to_numpy()
    own = np.flatnonzero(members(structure) & is_own)
    requests = asked_by(graph)[own]
    requests = np.where(requests >= 0, requests, graph.ops_around(own))
    interval = work.interval_of(times_ns[requests, 0])
    rows = table[pl.Series(own)]
    in_buckets = (
        (rows.get_column("type") == CollectiveType.ALL_REDUCE.value).fill_null(value=False).to_numpy()
    )
    between = work.stage[interval] == ALL_STAGES
    return replace(
        work,
        events=rows.get_column("event_id").to_numpy(),
        requested=interval,
        divided=gradients[own] & (in_buckets | between),
    )
