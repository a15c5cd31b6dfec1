"""What one part of a collective takes with each algorithm: an alpha-beta model of messages in rounds.

Sources: rounds and message sizes of the ring, of direct exchange and of recursive halving and doubling are those of
Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005; what a round costs
beside its message (`endpoint-delay` before each, three passes over memory for each reduction) is ASTRA-sim's, and its
cycle counts are the measure of this module (docs/chakra_run.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.network import Algorithm

__all__ = ["Members", "Part", "part_ends_ns", "power_of_two"]

_Ints = NDArray[np.int64]

_REDUCTION_PASSES = 3
"""Over memory: both operands are read, the result is written."""
_PAIR = 2
"""Members of the smallest group."""
_REDUCED = {CollectiveCommType.ALL_REDUCE, CollectiveCommType.REDUCE_SCATTER}
"""Kinds whose messages are added up on arrival."""


@dataclass(frozen=True)
class Members:
    """The ranks that take part, in the order of their ring.

    Args:
        count: how many they are.
        message_ns: what a message takes, of positions in the ring: source, destination, bytes.
        endpoint_ns: before each message.
        memory_bytes_per_ns: what reductions read and write with.
        is_group: whether they are a group that is less than all ranks.
    """

    count: int
    message_ns: Callable[[_Ints, _Ints, int], _Ints]
    endpoint_ns: int
    memory_bytes_per_ns: float
    is_group: bool

    def reduction_ns(self, size_bytes: int) -> int:
        """What a reduction of so many bytes takes."""
        return _REDUCTION_PASSES * int(size_bytes / self.memory_bytes_per_ns)


@dataclass(frozen=True)
class Part:
    """A chunk of a collective in one dimension.

    Args:
        kind: all-reduce, all-gather, reduce-scatter or all-to-all.
        algorithm: how it is done.
        size_bytes: what each member has before it.
    """

    kind: CollectiveCommType
    algorithm: Algorithm
    size_bytes: int

    def after_bytes(self, members: int) -> int:
        """What each member has behind it."""
        if self.kind is CollectiveCommType.ALL_GATHER:
            return self.size_bytes * members
        return (
            self.size_bytes // members if self.kind is CollectiveCommType.REDUCE_SCATTER else self.size_bytes
        )


def part_ends_ns(part: Part, members: Members, start_ns: _Ints) -> _Ints:
    """When each member has done its part.

    Args:
        part: what is done.
        members: by whom.
        start_ns: when each begins.
    """
    return _ROUNDS[part.algorithm](part, members, start_ns)


def power_of_two(count: int) -> bool:
    """Whether halving and doubling can be done among so many."""
    return count & (count - 1) == 0


def _ring(part: Part, members: Members, start_ns: _Ints) -> _Ints:
    """Each sends to the next and hands on what it received: n-1 rounds, of an all-reduce twice as many.

    An all-to-all hands each message on until it arrives: n(n-1)/2 rounds.
    """
    count, gathers = members.count, part.kind is CollectiveCommType.ALL_GATHER
    rounds = {
        CollectiveCommType.ALL_REDUCE: 2 * (count - 1),
        CollectiveCommType.ALL_TO_ALL: count * (count - 1) // 2,
    }
    size = part.size_bytes if gathers else part.size_bytes // count
    own = np.arange(count, dtype=np.int64)
    before = (own - 1) % count
    message = members.message_ns(before, own, size)
    reduction = members.reduction_ns(size) if part.kind in _REDUCED else 0
    reductions = count - 1
    total = rounds.get(part.kind, count - 1)
    if _all_equal(message) and _all_equal(start_ns):
        taken = members.endpoint_ns + total * (int(message[0]) + members.endpoint_ns) + reductions * reduction
        return start_ns + taken
    at = start_ns + members.endpoint_ns
    for nth in range(total):
        at = np.maximum(at[before] + message, at) + members.endpoint_ns
        if nth < reductions:
            at = at + reduction
    return at


def _direct(part: Part, members: Members, start_ns: _Ints) -> _Ints:
    """Each sends to each other at once; an all-reduce does so twice."""
    count = members.count
    size = part.size_bytes if part.kind is CollectiveCommType.ALL_GATHER else part.size_bytes // count
    reduction = members.reduction_ns(size) if part.kind in _REDUCED else 0
    own = np.arange(count, dtype=np.int64)
    distance = np.arange(1, count, dtype=np.int64)[:, None]
    src = (own - distance) % count
    message = members.message_ns(src.ravel(), np.broadcast_to(own, src.shape).ravel(), size).reshape(
        src.shape
    )
    begin = start_ns + members.endpoint_ns
    arrivals = begin[src] + message
    if part.kind is not CollectiveCommType.ALL_REDUCE:
        return _last(arrivals) + members.endpoint_ns + reduction
    sent = _sent_back(arrivals, members.endpoint_ns + reduction)
    end = _last(sent[distance - 1, src] + message) + members.endpoint_ns
    # ASTRA-sim counts a second reduction in groups of more than two that are less than all ranks.
    return end + (reduction if members.is_group and count > _PAIR else 0)


def _sent_back(arrivals: _Ints, handling_ns: int) -> _Ints:
    """When each member sends its result to those at distances 1, 2, ...: one for each message that it has handled.

    The first goes when the last message has come, the others as messages are handled, in the order of their arrival.

    Args:
        arrivals: of messages at each member, by distance.
        handling_ns: what a message takes behind its arrival.
    """
    handled = np.sort(arrivals, axis=0) + handling_ns
    last = _last(arrivals)
    first = np.where(handled >= last, handled, np.iinfo(np.int64).max).min(axis=0)
    sent: _Ints = np.maximum(handled, first)
    return sent


def _last(arrivals: _Ints) -> _Ints:
    found: _Ints = arrivals.max(axis=0)
    return found


def _halving_doubling(part: Part, members: Members, start_ns: _Ints) -> _Ints:
    """Partners at distances 1, 2, 4, ... exchange halves, and the way back doubles them: log2(n) rounds each."""
    levels = members.count.bit_length() - 1
    gathers = part.kind is CollectiveCommType.ALL_GATHER
    halving = [(1 << level, part.size_bytes >> (level + 1)) for level in range(levels)]
    smallest = (part.size_bytes >> (levels + 1)) * 2
    doubling = [
        (members.count >> (level + 1), (part.size_bytes if gathers else smallest) << level)
        for level in range(levels)
    ]
    both = part.kind is CollectiveCommType.ALL_REDUCE
    rounds = doubling if gathers else halving + doubling if both else halving
    own = np.arange(members.count, dtype=np.int64)
    at = start_ns + members.endpoint_ns
    for nth, (distance, size) in enumerate(rounds):
        partner = own ^ distance
        at = np.maximum(at[partner] + members.message_ns(partner, own, size), at) + members.endpoint_ns
        if part.kind in _REDUCED and nth + 1 < levels:
            at = at + members.reduction_ns(rounds[nth + 1][1])
    return at


def _all_equal(values: _Ints) -> bool:
    return bool((values == values[0]).all())


_ROUNDS: dict[Algorithm, Callable[[Part, Members, _Ints], _Ints]] = {
    Algorithm.RING: _ring,
    Algorithm.DIRECT: _direct,
    Algorithm.HALVING_DOUBLING: _halving_doubling,
}
