"""Changes of how a job is split over ranks: replicas and pipeline stages."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.collectives import BETWEEN_TWO
from tracebraid.model.graph import DependencyGraph, Ring
from tracebraid.simulation.changes.communication import collective_ns, communication_costs, ring_factors
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

_Bools = NDArray[np.bool_]


@verb("data-parallel", Value.SIZES, on=On.SHAPES, network=True)
def with_replicas(graph: DependencyGraph, before: float, after: float, network: Ring | None) -> Reshaped:
    """Change the number of replicas: collectives of gradients and parameters have so many ranks.

    Ring formulas, as of `ranks`, at the fitted latency and bandwidth, or on `network=50GB/s,5us`; each replica keeps
    its batch, and added ones are as fast as the others. Refused without either, or if no group of FROM ranks has
    gradients.
    """
    shaping = Reshaping.of(graph)
    own = gradient_members(shaping.structure)
    if not own.any():
        raise ArgumentError(
            "data-parallel: no collectives carry the gradients of all parameters; a job of one replica does not show "
            "how fast its network is"
        )
    over_ranks(shaping, "data-parallel", own, (int(before), int(after)), network)
    return shaping.finished({}, 1.0)


def over_ranks(
    shaping: Reshaping, verb: str, chosen: _Bools, ranks: tuple[int, int], network: Ring | None
) -> None:
    """Give the groups of some collectives that have so many ranks another number of them."""
    before, after = ranks
    costs = communication_costs(shaping.graph, chosen)
    own = costs.size == before
    if not own.any():
        raise ArgumentError(
            f"{verb}: no such collective has {before} ranks; their groups have {counts_text(costs.size.tolist())}"
        )
    if network is not None:
        shaping.retime_transfers(costs, own, collective_ns(costs, network, after))
        return
    if not costs.known[own].all():
        raise ArgumentError(
            f"{verb}: the latency of its collectives is not known, which grows with the ranks: a fit needs collectives "
            "of their group and type in several sizes, see tracebraid analyze collective-fit; or give a network, such "
            "as network=50GB/s,5us"
        )
    of_alpha, of_size = ring_factors(costs, after)
    shaping.scale_transfers(costs, np.where(own, of_alpha, 1.0), np.where(own, of_size, 1.0))


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
