"""Collectives as rounds of messages, and when each member is through them: a recursion of maxima and sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled_with

__all__ = ["DIRECT", "DIRECT_TWICE", "EXCHANGE", "ROUNDS_PARTS", "Rounds", "member_ends", "member_ends_ns"]

_Ints = NDArray[np.int64]

EXCHANGE, DIRECT, DIRECT_TWICE = 0, 1, 2
"""Kinds of steps: each receives from a partner; each from each other; the same, and results are sent back."""


class Rounds(NamedTuple):
    """What collectives do, each of one or more kinds of rounds, in flat arrays.

    Args:
        members: of each collective.
        chunks: of each, how often it is done, one after another.
        endpoint_ns: of each, before its first message.
        first: of each, its first step; one entry more than there are collectives.
        kind: of each step `EXCHANGE`, `DIRECT` or `DIRECT_TWICE`.
        times: of each step, how often it is done.
        handling_ns: of each step, what a message takes behind its arrival.
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
    """Whether all are equal."""
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


def member_ends(rounds: Rounds, number: int, start_ns: _Ints) -> _Ints:
    """When each member has done a collective.

    Args:
        rounds: of all collectives.
        number: which of them.
        start_ns: when each member begins.
    """
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


_CALLED = (_is_even, _exchange, _direct, _direct_twice)
ROUNDS_PARTS = (*_CALLED, member_ends)
"""What a compiled function that calls `member_ends` is compiled with."""

member_ends_ns = compiled_with(*_CALLED)(member_ends)
"""`member_ends`, compiled."""
