"""What a collective takes on a network."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.network import Algorithm, CollectiveSettings, Dimension, Network
from tracebraid.simulation.chakra.algorithms import Members, Part, Plan, plan_of, power_of_two, rounds_of
from tracebraid.simulation.chakra.links import hops, link_ns, message_ns
from tracebraid.simulation.chakra.rounds import member_ends_ns

__all__ = ["Collective", "Cost", "cost_of"]

_Ints = NDArray[np.int64]

_LEAST = 2
"""Members that have somebody to talk to."""
_GROUP_ENDPOINT_NS = 10
"""Before each message in a group that is less than all ranks: ASTRA-sim takes it there, whatever its files say."""
_AS = {
    CollectiveCommType.REDUCE_SCATTER_BLOCK: CollectiveCommType.REDUCE_SCATTER,
    CollectiveCommType.SCATTER: CollectiveCommType.REDUCE_SCATTER,
    CollectiveCommType.REDUCE: CollectiveCommType.ALL_REDUCE,
    CollectiveCommType.BROADCAST: CollectiveCommType.ALL_REDUCE,
    CollectiveCommType.BARRIER: CollectiveCommType.ALL_REDUCE,
    CollectiveCommType.GATHER: CollectiveCommType.ALL_GATHER,
}
"""Kinds that ASTRA-sim does not simulate take what the kind takes that moves as much or more."""


@dataclass(frozen=True)
class Collective:
    """A collective of some ranks.

    Args:
        kind: what it does.
        size_bytes: as Chakra counts it: of an all-gather the shard of a rank, else the input of a rank.
        members: the ranks, in the order of their group.
        world: ranks of the job.
    """

    kind: CollectiveCommType
    size_bytes: int
    members: tuple[int, ...]
    world: int


@dataclass(frozen=True, eq=False)
class Cost:
    """What a collective takes.

    Args:
        even_ns: of each member, from the moment when all come at once.
        plan: its rounds, where those matter for members that do not come at once; None: nobody starts before the last.
    """

    even_ns: _Ints
    plan: Plan | None


def cost_of(collective: Collective, network: Network, settings: CollectiveSettings) -> Cost:
    """What a collective takes on a network.

    Args:
        collective: the collective.
        network: with dimensions.
        settings: chunks, delays, algorithms.

    Raises:
        ArgumentError: the algorithm cannot do the kind among so many.
    """
    count = len(collective.members)
    if count < _LEAST:
        return Cost(np.ones(count, dtype=np.int64), None)
    kind = _AS.get(collective.kind, collective.kind)
    size, chunks = _chunks(collective, kind, settings)
    if count == collective.world and len(network.dimensions) > 1:
        taken = _pipelined(_phases(kind, size, network, settings), chunks, settings)
        return Cost(np.full(count, taken, dtype=np.int64), None)
    members = _of_group(collective, network, settings)
    part = _part(kind, size, count, network.dimensions, settings)
    plan = plan_of(part, members, -(-chunks // settings.active_chunks))
    return Cost(_even_ns(plan), plan)


def _even_ns(plan: Plan) -> _Ints:
    return member_ends_ns(rounds_of([plan]), 0, np.zeros(plan.members, dtype=np.int64))


def _chunks(
    collective: Collective, kind: CollectiveCommType, settings: CollectiveSettings
) -> tuple[int, int]:
    """Bytes of a chunk and how many there are, as ASTRA-sim cuts: at least one byte for each rank of the job."""
    size = collective.size_bytes
    chunk = size // settings.chunks
    if kind is not CollectiveCommType.ALL_GATHER and chunk < collective.world:
        return collective.world, settings.chunks
    chunk = max(chunk, 1)
    return chunk, max(-(-size // chunk), 1)


def _part(
    kind: CollectiveCommType,
    size_bytes: int,
    count: int,
    dimensions: Sequence[Dimension],
    settings: CollectiveSettings,
) -> Part:
    """What a group of ranks does: in a network of several dimensions a ring, as in ASTRA-sim."""
    algorithm = settings.algorithm(kind, 0) if len(dimensions) == 1 else Algorithm.RING
    return Part(kind, _possible(algorithm, kind, count), size_bytes)


def _possible(algorithm: Algorithm, kind: CollectiveCommType, count: int) -> Algorithm:
    """The algorithm.

    Raises:
        ArgumentError: it cannot do the kind among so many.
    """
    if algorithm is not Algorithm.HALVING_DOUBLING:
        return algorithm
    if kind is CollectiveCommType.ALL_TO_ALL:
        raise ArgumentError("halvingDoubling cannot do ALL_TO_ALL; name ring or direct for all-to-all")
    if not power_of_two(count):
        raise ArgumentError(
            f"halvingDoubling needs a power of two of ranks, and a {kind.name} has {count}; name ring or direct for it"
        )
    return algorithm


def _of_group(collective: Collective, network: Network, settings: CollectiveSettings) -> Members:
    """The members of a collective in one dimension, or of a group in several."""
    ranks = np.array(collective.members, dtype=np.int64)
    is_group = len(ranks) < collective.world
    if not is_group:
        ranks = np.sort(ranks)

    def message(src: _Ints, dst: _Ints, size_bytes: int) -> _Ints:
        size = np.full(len(src), size_bytes, dtype=np.int64)
        return message_ns(network, ranks[src], ranks[dst], size, collective.world)

    endpoint = _GROUP_ENDPOINT_NS if is_group else settings.endpoint_delay_ns
    return Members(len(ranks), message, endpoint, settings.memory_bytes_per_ns, is_group)


def _within(dimension: Dimension, settings: CollectiveSettings) -> Members:
    """All ranks of a dimension."""
    count = dimension.ranks or 1

    def message(src: _Ints, dst: _Ints, size_bytes: int) -> _Ints:
        return link_ns(dimension, hops(dimension, src, dst, count), size_bytes)

    return Members(count, message, settings.endpoint_delay_ns, settings.memory_bytes_per_ns, is_group=False)


def _phases(
    kind: CollectiveCommType, size_bytes: int, network: Network, settings: CollectiveSettings
) -> list[tuple[int, int]]:
    """The dimensions that a chunk goes through, and what it takes in each.

    An all-reduce scatters inwards, reduces in the last dimension and gathers on its way back (`localBWAware`).
    """
    order = range(len(network.dimensions))
    steps = [(kind, dimension) for dimension in order]
    if kind is CollectiveCommType.ALL_GATHER:
        steps.reverse()
    elif kind is CollectiveCommType.ALL_REDUCE:
        inwards = [(CollectiveCommType.REDUCE_SCATTER, dimension) for dimension in order[:-1]]
        outwards = [(CollectiveCommType.ALL_GATHER, dimension) for dimension in reversed(order[:-1])]
        steps = [*inwards, steps[-1], *outwards]
    found = []
    part = Part(kind, Algorithm.RING, size_bytes)
    for step, dimension in steps:
        members = _within(network.dimensions[dimension], settings)
        algorithm = _possible(settings.algorithm(kind, dimension), step, members.count)
        part = replace(part, kind=step, algorithm=algorithm)
        found.append((dimension, int(_even_ns(plan_of(part, members)).max())))
        part = replace(part, size_bytes=part.after_bytes(members.count))
    return found


def _pipelined(phases: list[tuple[int, int]], chunks: int, settings: CollectiveSettings) -> int:
    """When the last chunk is through all phases: a dimension works on some at once, in the order in which they come."""
    free: dict[int, list[int]] = {dimension: [0] * settings.active_chunks for dimension, _ in phases}
    coming = [(0, chunk, 0) for chunk in range(chunks)]
    last = 0
    while coming:
        now, chunk, phase = heapq.heappop(coming)
        dimension, taken = phases[phase]
        begin = max(now, heapq.heappop(free[dimension]))
        heapq.heappush(free[dimension], begin + taken)
        last = max(last, begin + taken)
        if phase + 1 < len(phases):
            heapq.heappush(coming, (begin + taken, chunk, phase + 1))
    return last
