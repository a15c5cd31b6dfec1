"""Random jobs of Chakra nodes: ranks that come at different times to collectives of several groups, and messages."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.chakra_ranks import Node, collective, compute, receive, send

_KINDS = ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL", "BROADCAST", "message")
_SIZES = (4096, 1 << 16, 1 << 20, 1 << 22)


@dataclass
class RandomJob:
    """A job.

    Args:
        groups: the process groups; that of all ranks has a number, too, as ASTRA-sim needs it.
        ranks: their nodes.
        last: of each rank the last communication, which the next waits for.
    """

    groups: Mapping[str, tuple[int, ...]]
    ranks: list[list[Node]]
    last: dict[int, int] = field(default_factory=dict)


def random_job(seed: int) -> RandomJob:
    """A job; the same for the same seed."""
    made = random.Random(seed)
    count = made.choice([2, 3, 4, 8])
    halves = {"1": tuple(range(0, count, 2)), "2": tuple(range(1, count, 2))} if count >= 4 else {}
    first = [[compute(0, us=made.randint(0, 60), is_cpu_op=False)] for _ in range(count)]
    job = RandomJob({**halves, "3": tuple(range(count))}, first)
    for _ in range(made.randint(1, 6)):
        for rank in range(count):
            for _ in range(made.randint(0, 5)):
                own = job.ranks[rank]
                waits = made.sample(range(len(own)), min(len(own), made.randint(0, 2)))
                own.append(compute(len(own), *waits, us=made.randint(0, 60), is_cpu_op=False))
        kind = made.choice(_KINDS)
        if kind == "message":
            _message(job, made)
        else:
            _collective(job, made, kind)
    return job


def _collective(job: RandomJob, made: random.Random, kind: str) -> None:
    size, us = made.choice(_SIZES), made.randint(0, 40)
    group = made.choice(list(job.groups))
    for rank in job.groups[group]:
        own = job.ranks[rank]
        waits = {*([made.randrange(len(own))] if own else []), *_last(job, rank)}
        node = collective(
            len(own), *sorted(waits), size=size, group=group, comm_type=kind, duration_micros=us
        )
        job.last[rank] = len(own)
        own.append({**node, "is_cpu_op": False})


def _message(job: RandomJob, made: random.Random) -> None:
    source, target = made.sample(range(len(job.ranks)), 2)
    size, tag = made.randint(1, 1 << 20), made.randint(0, 2)
    first, second = job.ranks[source], job.ranks[target]
    job_last = _last(job, target)
    waits = {*_last(job, source), *([len(first) - 1] if first else [])}
    job.last[source] = len(first)
    first.append({**send(len(first), *sorted(waits), to=target, size=size, tag=tag), "is_cpu_op": False})
    waits = {*job_last, *([len(second) - 1] if second and made.random() < 0.5 else [])}
    if made.random() < 0.5:
        job.last[target] = len(second)
    second.append(
        {**receive(len(second), *sorted(waits), source=source, size=size, tag=tag), "is_cpu_op": False}
    )


def _last(job: RandomJob, rank: int) -> list[int]:
    return [job.last[rank]] if rank in job.last else []
