"""Duration of a collective on a network."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.chakra.codes import CollectiveCommType
from tracebraid.chakra.running.algorithms import (
    Members,
    Part,
    Plan,
    member_ends,
    plan_of,
    power_of_two,
    rounds_of,
)
from tracebraid.chakra.running.network import Algorithm, CollectiveSettings, Dimension, Network, Topology
from tracebraid.errors import ArgumentError

_Ints = NDArray[np.int64]

_SWITCH_HOPS = 2
"""Links of a message: to the switch and from it."""


def hops(dimension: Dimension, src: _Ints, dst: _Ints, ranks: int) -> _Ints:
    """The links between positions of a dimension."""
    if dimension.topology is Topology.SWITCH:
        return np.full(len(src), _SWITCH_HOPS, dtype=np.int64)
    if dimension.topology is Topology.FULLY_CONNECTED:
        return np.ones(len(src), dtype=np.int64)
    clockwise = (dst - src) % ranks
    shorter: _Ints = np.minimum(clockwise, ranks - clockwise)
    return shorter


def link_ns(dimension: Dimension, links: _Ints | int, size_bytes: _Ints | int) -> _Ints:
    """Duration of messages in a dimension: links x latency + size / bandwidth, truncated to ns as in ASTRA-sim."""
    taken = np.asarray(links) * dimension.latency_ns
    taken = taken + np.asarray(size_bytes) / dimension.bandwidth_bytes_per_ns
    return np.atleast_1d(taken).astype(np.int64)


def message_ns(network: Network, src: _Ints, dst: _Ints, size_bytes: _Ints, world: int) -> _Ints:
    """Duration of single messages between ranks: over the first dimension in which they differ, as in ASTRA-sim."""
    taken = np.zeros(len(src), dtype=np.int64)
    is_open = np.ones(len(src), dtype=np.bool_)
    stride = 1
    for dimension in network.dimensions:
        ranks = dimension.ranks or world
        start, end = src // stride % ranks, dst // stride % ranks
        here = is_open & (start != end)
        links = hops(dimension, start[here], end[here], ranks)
        taken[here] = link_ns(dimension, links, size_bytes[here])
        is_open &= ~here
        stride *= ranks
    return taken


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
"""Substitutes for kinds that ASTRA-sim does not simulate: kinds that move as much or more."""


class Collective(Struct, frozen=True):
    """A collective of some ranks.

    Args:
        kind: its type.
        size_bytes: as Chakra counts it: of an all-gather the shard of a rank, else the input of a rank.
        members: the ranks, in the order of their group.
        world: ranks of the job.
    """

    kind: CollectiveCommType
    size_bytes: int
    members: tuple[int, ...]
    world: int


class Cost(Struct, frozen=True, eq=False):
    """Duration of a collective.

    Args:
        even_ns: of each member, from the moment when all come at once.
        plan: its rounds, for members that arrive at different times; None: none starts before the last arrival.
    """

    even_ns: _Ints
    plan: Plan | None


def cost_of(collective: Collective, network: Network, settings: CollectiveSettings) -> Cost:
    """Duration of a collective on a network."""
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
    return member_ends(rounds_of([plan]), 0, np.zeros(plan.members, dtype=np.int64))


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
    """Algorithm of a group of ranks: in a network of several dimensions a ring, as in ASTRA-sim."""
    algorithm = settings.algorithm(kind, 0) if len(dimensions) == 1 else Algorithm.RING
    return Part(kind, _possible(algorithm, kind, count), size_bytes)


def _possible(algorithm: Algorithm, kind: CollectiveCommType, count: int) -> Algorithm:
    """The algorithm."""
    if algorithm is not Algorithm.HALVING_DOUBLING:
        return algorithm
    if kind is CollectiveCommType.ALL_TO_ALL:
        raise ArgumentError("halvingDoubling does not support ALL_TO_ALL; use ring or direct for all-to-all")
    if not power_of_two(count):
        raise ArgumentError(
            f"halvingDoubling needs a power of two of ranks, but a {kind.name} has {count}; name ring or direct for it"
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
    """Return the dimensions of a chunk, with the duration in each.

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
    """End of the last chunk's last phase: a dimension processes several chunks at once, in order of arrival."""
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
