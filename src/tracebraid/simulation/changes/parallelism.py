"""Changes of how a job is split over ranks: replicas and pipeline stages."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.collectives import BETWEEN_TWO
from tracebraid.model.graph import DependencyGraph
from tracebraid.simulation.changes.communication import communication_costs, ring_factors
from tracebraid.simulation.changes.layers import has_products
from tracebraid.simulation.changes.reshaping import (
    Range,
    Reshaped,
    Reshaping,
    gradient_members,
    range_of,
    scale_collectives,
    scale_ranges,
)
from tracebraid.simulation.changes.verbs import On, Value, verb
from tracebraid.simulation.scaling import doubtful
from tracebraid.simulation.structure import Phase, Structure, counts_text


@verb("data-parallel", Value.SIZES, on=On.SHAPES)
def with_replicas(graph: DependencyGraph, before: float, after: float) -> Reshaped:
    """Change the number of replicas: collectives of gradients and parameters have so many ranks.

    Ring formulas, as of `ranks`, at the fitted latency and bandwidth: the network stays as fast, each replica keeps its
    batch, and added ones are as fast as the others. Refused without a fit, or if no group of FROM ranks has gradients.
    """
    shaping = Reshaping.of(graph)
    members = gradient_members(shaping.structure)
    if not members.any():
        raise ArgumentError(
            "data-parallel: no collectives carry the gradients of all parameters; a job of one replica does not show "
            "how fast its network is"
        )
    costs = communication_costs(graph, members)
    sizes = costs.size.tolist()
    if int(before) not in sizes:
        raise ArgumentError(
            f"data-parallel: no collective of gradients has {before:g} ranks; their groups have {counts_text(sizes)}"
        )
    own = costs.size == int(before)
    if not costs.known[own].all():
        raise ArgumentError(
            "data-parallel: the latency of gradient collectives is not known, which grows with the ranks: a fit needs "
            "collectives of their group and type in several sizes, see tracebraid analyze collective-fit"
        )
    of_alpha, of_size = ring_factors(costs, after)
    shaping.scale_transfers(costs, np.where(own, of_alpha, 1.0), np.where(own, of_size, 1.0))
    return shaping.finished({}, 1.0)


@verb(
    "pipeline",
    Value.SIZES,
    on=On.SHAPES,
    unexported="the traces lack the sends between stages; tracebraid chakra generate writes a pipeline",
)
def with_stages(graph: DependencyGraph, before: float, after: float) -> Reshaped:
    """Split the model of each rank into stages of equal work, in the order of 1F1B; FROM is 1.

    With m micro-batches (the backward passes of a step) and p stages, passes take (m + p - 1) / (m p) of their time,
    updates and gradient collectives 1 / p. Sends between stages are not counted. Refused where the trace has stages.
    """
    shaping = Reshaping.of(graph)
    structure = shaping.structure
    types = graph.activities.get_column("type").cast(pl.String)
    if int(before) != 1 or types.is_in([kind.value for kind in BETWEEN_TWO]).any():
        raise ArgumentError(
            "pipeline: only a job without stages can be split, whose ranks neither send nor receive: give 1->N"
        )
    batches = _micro_batches(structure)
    of_passes = (batches + after - 1) / (batches * after)
    ranges: list[Range] = []
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        scaled = doubtful(of_passes, ShapeBasis.SCALED)
        parts = [part for part in structure.outer.stretches(phase) if has_products(structure, part)]
        ranges += [range_of(structure, part, scaled, f"{phase.name.lower()} passes") for part in parts]
    stages = dict.fromkeys(structure.parameters, 1.0 / after)
    updates = doubtful(1.0 / after, ShapeBasis.SCALED)
    ranges += [
        range_of(structure, part, updates, "updates") for part in structure.outer.stretches(Phase.UPDATE)
    ]
    scale_ranges(shaping, ranges)
    scale_collectives(shaping, stages)
    return shaping.finished(stages, min(batches, after) / after)


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
