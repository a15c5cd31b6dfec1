"""Change of the number of layers: blocks of ops that a pass repeats."""

from __future__ import annotations

from collections import Counter

import polars as pl
from msgspec.structs import replace

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.graph import DependencyGraph
from tracebraid.simulation.changes.reshaping import (
    Range,
    Reshaped,
    Reshaping,
    range_of,
    scale_collectives,
    scale_ranges,
)
from tracebraid.simulation.changes.verbs import On, Value, verb
from tracebraid.simulation.scaling import doubtful
from tracebraid.simulation.structure import (
    Phase,
    Run,
    Structure,
    counts_text,
    has_products,
    numel_of,
    repeated_blocks,
    repeated_runs,
)


@verb("layers", Value.SIZES, on=On.SHAPES)
def with_layers(graph: DependencyGraph, before: float, after: float) -> Reshaped:
    """Repeat the block of ops that the forward pass repeats FROM times TO times instead.

    Its repetitions, with all between and launched in them, take in proportion as long; so do those of the backward
    pass and the optimizer; what they lack follows the size of the parameters, as gradient collectives do. Refused
    where the forward pass repeats no block that often, or the backward pass does not.
    """
    shaping = Reshaping.of(graph)
    structure = shaping.structure
    added = int(after) - int(before)
    forward = _blocks(structure, Phase.FORWARD, (int(before),))
    backward = _blocks(structure, Phase.BACKWARD, (int(before), int(before) - 1))
    rank = graph.activities.get_column("rank").fill_null(-1).to_numpy()
    ratio: dict[int, float] = {}
    for run in backward:
        of_block = numel_of(structure.gradients(run)) / run.count
        own = int(rank[structure.outer.activity[run.start]])
        total = numel_of(structure.parameters.get(own, ()))
        if total:
            ratio[own] = max(total + added * of_block, 0.0) / total
    scale_collectives(shaping, ratio, repeats=True)
    ranges = [
        _repeated(structure, run, added, f"{name} block")
        for name, runs in (("forward", forward), ("backward", backward))
        for run in runs
    ]
    scale_ranges(shaping, [*ranges, *_updates(shaping, int(before), added, ratio)])
    return shaping.finished(ratio, _activations_of_blocks(structure, forward, added))


def _blocks(structure: Structure, phase: Phase, counts: tuple[int, ...]) -> list[Run]:
    """The repetitions of the model's block in each stretch of a phase; of the forward pass there must be some."""
    found: list[Run] = []
    seen: Counter[int] = Counter()
    kept: dict[bytes, list[Run]] = {}
    stretches = structure.outer.stretches(phase)
    for part in stretches:
        runs = repeated_blocks(structure, part, kept)
        seen.update(run.count for run in runs)
        own = next(filter(None, ([run for run in runs if run.count == count] for count in counts)), [])
        if len({_block_key(structure, run) for run in own}) > 1:
            raise ArgumentError(
                f"layers: the {phase.name.lower()} pass repeats {len(own)} different blocks {counts[0]} times; "
                "which is the layer is not known"
            )
        found += own
    if not found and (
        phase is Phase.FORWARD or seen or any(has_products(structure, part) for part in stretches)
    ):
        raise ArgumentError(
            f"layers: the {phase.name.lower()} pass repeats no block of ops with a product {counts[0]} times; blocks "
            f"repeat so often (and in so many places): {counts_text(seen.elements())}"
        )
    return found


def _activations_of_blocks(structure: Structure, forward: list[Run], added: int) -> float:
    """New size of what forward ops read, over the old: of one pass, which has all blocks."""
    run = forward[0]
    whole = next(part for part in structure.passes(Phase.FORWARD) if part.start <= run.start < part.stop)
    in_run, in_all = (
        sum(
            numel_of(shape for shape in structure.calls[call].tensors if not structure.is_weight(shape))
            for call in structure.call[
                structure.inside(
                    int(structure.outer.first[part.start]), int(structure.outer.last[part.stop - 1])
                )
            ].tolist()
            if call >= 0
        )
        for part in (run, whole)
    )
    return 1.0 + added * in_run / run.count / max(in_all, 1)


def _block_key(structure: Structure, run: Run) -> bytes:
    return structure.outer.token[run.start : run.start + run.period].tobytes()


def _repeated(structure: Structure, run: Run, added: int, what: str) -> Range:
    """Scale the time from the first repetition to the last."""
    return range_of(structure, run, doubtful((run.count + added) / run.count, ShapeBasis.REPEATED), what)


def _updates(shaping: Reshaping, before: int, added: int, ratio: dict[int, float]) -> list[Range]:
    """Scale updates: blocks that they repeat, else all of an update by the size of the parameters."""
    structure, table = shaping.structure, shaping.graph.activities
    rank = table.get_column("rank").fill_null(-1).to_numpy()
    on_device = set(table.filter(pl.col("stream").is_not_null()).get_column("rank").unique().to_list())
    kept: dict[bytes, list[Run]] = {}
    found: list[Range] = []
    for part in structure.outer.stretches(Phase.UPDATE):
        tokens = structure.outer.token[part]
        if (key := tokens.tobytes()) not in kept:
            kept[key] = repeated_runs(tokens)
        runs = [run for run in kept[key] if run.count in (before, before - 1)]
        if runs:
            run = max(runs, key=lambda each: each.period * each.count)
            own = replace(run, start=part.start + run.start)
            found.append(_repeated(structure, own, added, "update block"))
            continue
        own_rank = int(rank[structure.outer.activity[part.start]])
        if own_rank not in ratio:
            raise ArgumentError(
                "layers: the size of a block's parameters is not known, which updates follow: no gradient is "
                "accumulated in the backward pass's blocks"
            )
        scaled = doubtful(ratio[own_rank], ShapeBasis.SCALED)
        found.append(range_of(structure, part, scaled, "updates", host=own_rank not in on_device))
    return found
