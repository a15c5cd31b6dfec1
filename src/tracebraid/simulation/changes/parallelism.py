"""Changes of how a job is split over ranks: replicas and pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.graph import DependencyGraph, Point, Ring
from tracebraid.simulation.changes.communication import collective_ns, communication_costs, ring_factors
from tracebraid.simulation.changes.move import launched_by
from tracebraid.simulation.changes.new_collectives import (
    ELEMENT_BYTES,
    NewCollectives,
    ring_latency,
    ring_times,
)
from tracebraid.simulation.changes.reshaping import (
    Reshaped,
    Reshaping,
    gradient_members,
    members,
)
from tracebraid.simulation.changes.verbs import On, Value, verb
from tracebraid.simulation.structure import Phase, Structure, counts_text, numel_of

_Bools = NDArray[np.bool_]


@verb("data-parallel", Value.SIZES, on=On.SHAPES, network=True)
def with_replicas(graph: DependencyGraph, before: float, after: float, network: Ring | None) -> Reshaped:
    """Change the number of replicas: collectives of gradients and parameters have so many ranks.

    Ring formulas, as of `ranks`, at the fitted latency and bandwidth, or on `network=50GB/s,5us`; each replica keeps
    its batch, and added ones are as fast as the others. Refused without either, or if no group of FROM ranks has
    gradients. From 1, on a network, DDP's all-reduces are added behind the ops that fill each bucket (1 MiB, then 25
    MiB) in the last backward pass of a step, one after the other; what comes behind the pass waits for them.
    """
    shaping = Reshaping.of(graph)
    own = gradient_members(shaping.structure)
    if int(before) == 1 and not own.any():
        return shaping.finished({}, 1.0, _all_reduces(shaping.structure, int(after), network))
    if not own.any():
        raise ArgumentError(
            "data-parallel: no collectives carry the gradients of all parameters; for a job without replicas give FROM "
            "as 1"
        )
    over_ranks(shaping, "data-parallel", own, (int(before), int(after)), network)
    return shaping.finished({}, 1.0)


_BUCKETS_BYTES = (2**20, 25 * 2**20)
"""Sizes at which DDP closes its first bucket of gradients, and all others."""


def _all_reduces(structure: Structure, ranks: int, network: Ring | None) -> NewCollectives:
    """The all-reduces of gradients that a job without replicas lacks."""
    if network is None:
        raise ArgumentError(
            "data-parallel: a job of one replica does not show how fast its network is; give one, such as "
            "network=50GB/s,5us"
        )
    found = _reductions(structure)
    if not found:
        raise ArgumentError(
            "data-parallel: no backward pass of the traces accumulates gradients, which replicas would add up"
        )
    behind, size_bytes, until = (np.array(column, dtype=np.int64) for column in zip(*found, strict=True))
    may_be_half = structure.graph.activities.get_column("stream").is_not_null().any()
    times_ns = ring_times(network, ranks, size_bytes, may_be_half)
    latency_ns = ring_latency(network, ranks)
    return NewCollectives(
        with_replicas.name, behind, until, size_bytes, ShapeBasis.GIVEN, times_ns, latency_ns
    )


def _reductions(structure: Structure) -> list[tuple[int, int, int]]:
    """Of each bucket of gradients the work that fills it, its bytes, and the moment that waits for it."""
    graph, outer = structure.graph, structure.outer
    rank = graph.activities.get_column("rank").fill_null(-1).to_numpy()
    starts_ns, ends_ns = graph.moments.time_ns[graph.moment_of].T
    by = launched_by(graph)
    work = np.flatnonzero((by >= 0) & ~members(structure))
    work = work[np.argsort(starts_ns[by[work]], kind="stable")]
    ops = outer.activity[np.argsort(starts_ns[outer.activity], kind="stable")]
    of_rank = {
        int(own): tuple(each[rank[each] == own] for each in (work, ops)) for own in np.unique(rank[ops])
    }
    found = []
    for part in _last_passes(structure):
        first, last = outer.activity[[part.start, part.stop - 1]]
        works, later = of_rank[int(rank[first])]
        launched_ns = starts_ns[by[works]]
        buckets = list(_buckets(structure, part))
        on_device = bool(((launched_ns >= starts_ns[first]) & (launched_ns <= ends_ns[last])).any())
        if on_device:
            filled = [
                int(works[np.searchsorted(launched_ns, ends_ns[op], side="right") - 1]) for op, _ in buckets
            ]
            behind = works[launched_ns >= ends_ns[last]]
        else:
            filled = [op for op, _ in buckets]
            behind = later[starts_ns[later] >= ends_ns[last]]
        if len(behind):
            until = int(graph.moment_of[behind[0], Point.START])
            found += [(op, size, until) for op, (_, size) in zip(filled, buckets, strict=True)]
    return found


def _last_passes(structure: Structure) -> list[slice]:
    """The last backward pass of each rank and step, by time."""
    graph, outer = structure.graph, structure.outer
    passes = [part for part in structure.passes(Phase.BACKWARD) if structure.gradients(part)]
    passes.sort(key=lambda part: int(graph.moment_of[outer.activity[part.start], Point.START]))
    own = pl.Series([outer.activity[part.start] for part in passes], dtype=pl.Int64)
    steps = graph.activities.select("rank", "step")[own].iter_rows()
    return list(dict(zip(steps, passes, strict=True)).values())


def _buckets(structure: Structure, part: slice) -> Iterator[tuple[int, int]]:
    """The last op of each bucket of a pass, and its bytes."""
    size_bytes, ends = 0, iter(_BUCKETS_BYTES)
    most = next(ends)
    own = [number for number in range(part.start, part.stop) if structure.accumulated[number]]
    for number in own:
        size_bytes += ELEMENT_BYTES * numel_of(structure.accumulated[number])
        if size_bytes >= most or number == own[-1]:
            yield int(structure.outer.activity[number]), size_bytes
            size_bytes, most = 0, next(ends, most)


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
        times_ns = (
            collective_ns(costs, network, after, size) for size in (costs.size_bytes, 0 * costs.size_bytes)
        )
        shaping.retime_transfers(costs, own, *times_ns)
        return
    if not costs.known[own].all():
        raise ArgumentError(
            f"{verb}: the latency of its collectives is not known, which grows with the ranks: a fit needs collectives "
            "of their group and type in several sizes, see tracebraid analyze collective-fit; or give a network, such "
            "as network=50GB/s,5us"
        )
    of_alpha, of_size = ring_factors(costs, after)
    shaping.scale_transfers(costs, np.where(own, of_alpha, 1.0), np.where(own, of_size, 1.0))
