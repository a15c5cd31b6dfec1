"""The rounds of messages that a part of a collective takes with each algorithm.

Sources: rounds and message sizes of the ring, of direct exchange and of recursive halving and doubling are those of
Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005; what a round costs
beside its message (`endpoint-delay` before each, three passes over memory for each reduction) is ASTRA-sim's, and its
cycle counts are the measure of this module (docs/chakra_run.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.network import Algorithm
from tracebraid.simulation.chakra.rounds import DIRECT, DIRECT_TWICE, EXCHANGE, Rounds

__all__ = ["Members", "Part", "Plan", "Step", "plan_of", "power_of_two", "rounds_of"]

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


@dataclass(frozen=True, eq=False)
class Step:
    """A kind of round: see `Rounds`.

    Args:
        kind: `EXCHANGE`, `DIRECT` or `DIRECT_TWICE`.
        times: how often.
        handling_ns: what a message takes behind its arrival.
        last_ns: the same of results that are sent back.
        partner: whom each member receives from.
        message_ns: what that takes.
    """

    kind: int
    times: int
    handling_ns: int
    last_ns: int
    partner: _Ints
    message_ns: _Ints


@dataclass(frozen=True, eq=False)
class Plan:
    """What a collective does.

    Args:
        members: how many they are.
        chunks: how often it is done, one after another.
        endpoint_ns: before its first message.
        steps: in their order.
    """

    members: int
    chunks: int
    endpoint_ns: int
    steps: tuple[Step, ...]


def plan_of(part: Part, members: Members, chunks: int = 1) -> Plan:
    """What a part does.

    Args:
        part: what is done.
        members: by whom.
        chunks: how often.
    """
    steps = tuple(_STEPS[part.algorithm](part, members))
    return Plan(members.count, chunks, members.endpoint_ns, steps)


def power_of_two(count: int) -> bool:
    """Whether halving and doubling can be done among so many."""
    return count & (count - 1) == 0


def rounds_of(plans: Sequence[Plan]) -> Rounds:
    """Plans in flat arrays."""
    steps = [step for plan in plans for step in plan.steps]
    cells = [step.partner for step in steps]
    return Rounds(
        _ints(plan.members for plan in plans),
        _ints(plan.chunks for plan in plans),
        _ints(plan.endpoint_ns for plan in plans),
        _ints(np.cumsum([0, *(len(plan.steps) for plan in plans)])),
        _ints(step.kind for step in steps),
        _ints(step.times for step in steps),
        _ints(step.handling_ns for step in steps),
        _ints(step.last_ns for step in steps),
        _ints(np.cumsum([0, *map(len, cells)])[:-1]),
        np.concatenate([*cells, _ints(())]),
        np.concatenate([*(step.message_ns for step in steps), _ints(())]),
    )


def _ints(values: object) -> _Ints:
    return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]


def _ring(part: Part, members: Members) -> list[Step]:
    """Each sends to the next and hands on what it received: n-1 rounds, of an all-reduce twice as many.

    An all-to-all hands each message on until it arrives: n(n-1)/2 rounds.
    """
    count = members.count
    once = count - 1
    size = part.size_bytes if part.kind is CollectiveCommType.ALL_GATHER else part.size_bytes // count
    own = np.arange(count, dtype=np.int64)
    before = (own - 1) % count
    message = members.message_ns(before, own, size)
    plain = members.endpoint_ns
    reduced = plain + (members.reduction_ns(size) if part.kind in _REDUCED else 0)
    steps = [Step(EXCHANGE, once, reduced, 0, before, message)]
    if part.kind is CollectiveCommType.ALL_REDUCE:
        steps.append(Step(EXCHANGE, once, plain, 0, before, message))
    elif part.kind is CollectiveCommType.ALL_TO_ALL:
        steps = [Step(EXCHANGE, once * count // 2, plain, 0, before, message)]
    return steps


def _direct(part: Part, members: Members) -> list[Step]:
    """Each sends to each other at once; an all-reduce does so twice."""
    count = members.count
    size = part.size_bytes if part.kind is CollectiveCommType.ALL_GATHER else part.size_bytes // count
    reduction = members.reduction_ns(size) if part.kind in _REDUCED else 0
    own = np.arange(count, dtype=np.int64)
    src = (own - np.arange(1, count, dtype=np.int64)[:, None]) % count
    dst = np.broadcast_to(own, src.shape).ravel()
    message = members.message_ns(src.ravel(), dst, size)
    handling = members.endpoint_ns + reduction
    if part.kind is not CollectiveCommType.ALL_REDUCE:
        return [Step(DIRECT, 1, handling, 0, src.ravel(), message)]
    # ASTRA-sim counts a second reduction in groups of more than two that are less than all ranks.
    last = handling if members.is_group and count > _PAIR else members.endpoint_ns
    return [Step(DIRECT_TWICE, 1, handling, last, src.ravel(), message)]


def _halving_doubling(part: Part, members: Members) -> list[Step]:
    """Partners at distances 1, 2, 4, ... exchange halves, and the way back doubles them: log2(n) rounds each."""
    levels = members.count.bit_length() - 1
    gathers = part.kind is CollectiveCommType.ALL_GATHER
    halving = [(1 << level, part.size_bytes >> (level + 1)) for level in range(levels)]
    smallest = part.size_bytes if gathers else (part.size_bytes >> (levels + 1)) * 2
    doubling = [(members.count >> (level + 1), smallest << level) for level in range(levels)]
    both = part.kind is CollectiveCommType.ALL_REDUCE
    rounds = doubling if gathers else halving + doubling if both else halving
    own = np.arange(members.count, dtype=np.int64)
    steps = []
    for nth, (distance, size) in enumerate(rounds):
        is_reduced = part.kind in _REDUCED and nth + 1 < levels
        handling = members.endpoint_ns + (members.reduction_ns(rounds[nth + 1][1]) if is_reduced else 0)
        message = members.message_ns(own ^ distance, own, size)
        steps.append(Step(EXCHANGE, 1, handling, 0, own ^ distance, message))
    return steps


_STEPS: dict[Algorithm, Callable[[Part, Members], list[Step]]] = {
    Algorithm.RING: _ring,
    Algorithm.DIRECT: _direct,
    Algorithm.HALVING_DOUBLING: _halving_doubling,
}
