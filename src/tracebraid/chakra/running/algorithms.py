"""The rounds of messages that a part of a collective takes with each algorithm.

Sources: rounds and message sizes of the ring, of direct exchange and of recursive halving and doubling are those of
Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005; what a round costs
beside its message (`endpoint-delay` before each, three passes over memory for each reduction) is ASTRA-sim's, and its
cycle counts are the measure of this module (docs/chakra/run.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import CollectiveCommType
from tracebraid.chakra.running.network import Algorithm
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]

EXCHANGE = 0
DIRECT = 1
DIRECT_TWICE = 2
"""Kinds of steps: each receives from a partner; each from each other; the same, and results are sent back."""


class Rounds(NamedTuple):
    """Programs of collectives, each of one or more kinds of rounds, in flat arrays.

    Args:
        members: of each collective.
        chunks: of each, how often it is done, one after another.
        endpoint_ns: of each, before its first message.
        first: of each, its first step; one entry more than there are collectives.
        kind: of each step `EXCHANGE`, `DIRECT` or `DIRECT_TWICE`.
        times: of each step, how often it is done.
        handling_ns: handling time of a message after its arrival, by step.
        last_ns: of each step that sends results back, the same of these.
        cell: of each step, its first entry in the two arrays below: one for each member, or one for each distance
            from 1 on and each member.
        partner: the position that the member receives from.
        message_ns: what that message takes.
    """

    members: _Ints
    chunks: _Ints
    endpoint_ns: _Ints
    first: _Ints
    kind: _Ints
    times: _Ints
    handling_ns: _Ints
    last_ns: _Ints
    cell: _Ints
    partner: _Ints
    message_ns: _Ints


def _is_even(values: _Ints) -> bool:
    """Return whether all are equal."""
    return bool(np.all(values == values[0]))


def _exchange(rounds: Rounds, step: int, at: _Ints, before: _Ints) -> None:
    count, cell, times = len(at), rounds.cell[step], rounds.times[step]
    handling = rounds.handling_ns[step]
    message = rounds.message_ns[cell : cell + count]
    if _is_even(at) and _is_even(message):
        at += times * (message[0] + handling)
        return
    for _ in range(times):
        before[:] = at
        for member in range(count):
            come = before[rounds.partner[cell + member]] + message[member]
            at[member] = max(come, before[member]) + handling


def _direct(rounds: Rounds, step: int, at: _Ints, before: _Ints) -> None:
    count, cell = len(at), rounds.cell[step]
    before[:] = at
    for member in range(count):
        latest = before[member]
        for row in range(count - 1):
            entry = cell + row * count + member
            latest = max(latest, before[rounds.partner[entry]] + rounds.message_ns[entry])
        at[member] = latest + rounds.handling_ns[step]


def _direct_twice(rounds: Rounds, step: int, at: _Ints, before: _Ints) -> None:
    """Results go back to those at distances 1, 2, ...: a message for each that was handled.

    The first goes when the last message has come, the others as messages are handled, in the order of their arrival.
    """
    count, cell = len(at), rounds.cell[step]
    sent = np.empty((count - 1, count), dtype=np.int64)
    for member in range(count):
        come = np.empty(count - 1, dtype=np.int64)
        for row in range(count - 1):
            entry = cell + row * count + member
            come[row] = at[rounds.partner[entry]] + rounds.message_ns[entry]
        come.sort()
        latest = max(come[-1], at[member])
        handled = come + rounds.handling_ns[step]
        first = handled[-1]
        for row in range(count - 1):
            if handled[row] >= latest:
                first = min(first, handled[row])
        sent[:, member] = np.maximum(handled, first)
    for member in range(count):
        latest = 0
        for row in range(count - 1):
            entry = cell + row * count + member
            latest = max(latest, sent[row, rounds.partner[entry]] + rounds.message_ns[entry])
        at[member] = latest + rounds.last_ns[step]


@native_loop
def member_ends(rounds: Rounds, number: int, start_ns: _Ints) -> _Ints:
    """Compute the end of a collective on each member."""
    at: _Ints = start_ns.copy()
    before = at.copy()
    for _ in range(rounds.chunks[number]):
        at += rounds.endpoint_ns[number]
        for step in range(rounds.first[number], rounds.first[number + 1]):
            if rounds.kind[step] == 0:
                _exchange(rounds, step, at, before)
            elif rounds.kind[step] == 1:
                _direct(rounds, step, at, before)
            else:
                _direct_twice(rounds, step, at, before)
    return at


_REDUCTION_PASSES = 3
"""Over memory: both operands are read, the result is written."""
_PAIR = 2
"""Members of the smallest group."""
_REDUCED = {CollectiveCommType.ALL_REDUCE, CollectiveCommType.REDUCE_SCATTER}
"""Kinds whose messages are added up on arrival."""


class Members(Struct, frozen=True):
    """The ranks that take part, in the order of their ring.

    Args:
        count: how many they are.
        message_ns: duration of a message between positions in the ring: source, destination, bytes.
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
        """Duration of a reduction of a number of bytes."""
        return _REDUCTION_PASSES * int(size_bytes / self.memory_bytes_per_ns)


class Part(Struct, frozen=True):
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
        """State of each member."""
        if self.kind is CollectiveCommType.ALL_GATHER:
            return self.size_bytes * members
        return (
            self.size_bytes // members if self.kind is CollectiveCommType.REDUCE_SCATTER else self.size_bytes
        )


class Step(Struct, frozen=True, eq=False):
    """A kind of round: see `Rounds`.

    Args:
        kind: `EXCHANGE`, `DIRECT` or `DIRECT_TWICE`.
        times: how often.
        handling_ns: handling time of a message after its arrival.
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


class Plan(Struct, frozen=True, eq=False):
    """Program of a collective.

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
    """Program of a part."""
    steps = tuple(_STEPS[part.algorithm](part, members))
    return Plan(members.count, chunks, members.endpoint_ns, steps)


def power_of_two(count: int) -> bool:
    """Return whether halving and doubling works for a number of members."""
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
    """Each member sends to the next and forwards what it received: n-1 rounds, twice as many for an all-reduce.

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


def _direct_rounds(part: Part, members: Members) -> list[Step]:
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
    Algorithm.DIRECT: _direct_rounds,
    Algorithm.HALVING_DOUBLING: _halving_doubling,
}
