"""Collectives by sends and receives: rings, and binomial trees from rank 0.

A ring all-reduce of S bytes sends 2 (n - 1) / n S bytes from each rank in 2 (n - 1) messages (Patarasuk and Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). A binomial tree takes ceil(log2 n) rounds
and sends n - 1 messages of S bytes in all (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
operations in MPICH", 2005).
"""

from __future__ import annotations

from collections.abc import Iterator

from tracebraid.chakra.generating.limits import check_nodes, check_ranks
from tracebraid.chakra.generating.program import Lane, Program
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.workloads import MessageJob, MessagePattern

__all__ = ["messages_program"]

_RINGS = (MessagePattern.RING_ALL_REDUCE, MessagePattern.RING_ALL_GATHER)
_TO_ROOT = (MessagePattern.TREE_REDUCE, MessagePattern.TREE_ALL_REDUCE)
_FROM_ROOT = (MessagePattern.TREE_BROADCAST, MessagePattern.TREE_ALL_REDUCE)


def messages_program(messages: MessageJob, rank: int) -> Program:
    """What a rank does.

    Raises:
        ArgumentError: the pattern makes no sense with such a size, or so many ranks.
    """
    _check(messages)
    program = Program()
    for repeat in range(messages.repeats):
        program.step = str(repeat)
        if messages.pattern in _RINGS:
            _ring(program, messages, rank, repeat)
        if messages.pattern in _TO_ROOT:
            _to_root(program, messages, rank, 2 * repeat)
        if messages.pattern in _FROM_ROOT:
            _from_root(program, messages, rank, 2 * repeat + 1)
    return program


def _check(messages: MessageJob) -> None:
    if messages.ranks < 2:
        raise ArgumentError(f"{messages.ranks} ranks have nobody to send to: give two or more")
    if messages.repeats < 1:
        raise ArgumentError(f"{messages.repeats} repeats cannot be: give one or more")
    check_ranks(messages.ranks)
    check_nodes(messages.repeats)
    least = messages.ranks if messages.pattern in _RINGS else 1
    if messages.size_bytes < least:
        raise ArgumentError(
            f"{messages.size_bytes:,} bytes are too few for {messages.pattern.value} on {messages.ranks:,} ranks: "
            f"each message has a byte at least, so give {least:,} bytes or more"
        )


def _ring(program: Program, messages: MessageJob, rank: int, repeat: int) -> None:
    """Each message is sent when the one before it has come in: its data are made of that."""
    ranks = messages.ranks
    rounds = 2 * (ranks - 1) if messages.pattern is MessagePattern.RING_ALL_REDUCE else ranks - 1
    behind, ahead = (rank - 1) % ranks, (rank + 1) % ranks
    # Of an earlier repeat: it is over when all of it has come in.
    after = program.last(Lane.FROM_PREVIOUS)
    for number in range(rounds):
        name, tag = f"step {program.step}/round {number}", repeat * rounds + number
        sent = _part(messages, rank - number)
        program.send(f"{name}/send to {ahead}", (ahead, tag, sent), after)
        came = _part(messages, rank - 1 - number)
        after = (program.receive(f"{name}/receive from {behind}", (behind, tag, came), Lane.FROM_PREVIOUS),)


def _part(messages: MessageJob, number: int) -> int:
    """Bytes of one of as many parts as there are ranks; they differ by one byte at most."""
    whole, rest = divmod(messages.size_bytes, messages.ranks)
    return whole + (number % messages.ranks < rest)


def _from_root(program: Program, messages: MessageJob, rank: int, tag: int) -> None:
    after = (*program.last(Lane.COMMUNICATION), *_received(program))
    name = f"step {program.step}/broadcast"
    if rank > 0:
        parent = _parent(rank)
        message = (parent, tag, messages.size_bytes)
        after = (program.receive(f"{name}/receive from {parent}", message, Lane.FROM_PREVIOUS),)
    # The child with the most below it comes first.
    for child in reversed(list(_children(rank, messages.ranks))):
        program.send(f"{name}/send to {child}", (child, tag, messages.size_bytes), after)


def _to_root(program: Program, messages: MessageJob, rank: int, tag: int) -> None:
    name = f"step {program.step}/reduce"
    after = (*program.last(Lane.COMMUNICATION), *_received(program))
    for child in _children(rank, messages.ranks):
        message = (child, tag, messages.size_bytes)
        after = (program.receive(f"{name}/receive from {child}", message, Lane.FROM_NEXT),)
    if rank > 0:
        parent = _parent(rank)
        program.send(f"{name}/send to {parent}", (parent, tag, messages.size_bytes), after)


def _received(program: Program) -> tuple[int, ...]:
    return (*program.last(Lane.FROM_PREVIOUS), *program.last(Lane.FROM_NEXT))


def _parent(rank: int) -> int:
    """In the binomial tree: without the lowest bit that is set."""
    return rank & (rank - 1)


def _children(rank: int, ranks: int) -> Iterator[int]:
    """In the binomial tree, those with the fewest below them first."""
    bit = 1
    while bit < ranks and not rank & bit:
        if rank + bit < ranks:
            yield rank + bit
        bit <<= 1
