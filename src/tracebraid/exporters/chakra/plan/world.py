"""Which ranks are simulated, from whose traces, and in which groups they do what these do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracebraid.errors import ArgumentError, InputError
from tracebraid.exporters.chakra.plan.group_images import group_image
from tracebraid.exporters.chakra.plan.traced_groups import TracedGroup
from tracebraid.model.chakra.codes import Dialect, MissingRanks
from tracebraid.model.chakra.job_plan import PlannedRank, PlanOptions
from tracebraid.model.number_ranges import numbers_text

__all__ = ["TracedWorld", "groups_of_rank", "simulated_ranks"]

_LEAST_OF_ASTRA_SIM = 2
"""Ranks that ASTRA-sim needs: its networks have no fewer."""
_MOST_RANKS = 2**20
"""More ranks than any job has."""
_REPLICATE = "--missing replicate"


@dataclass(frozen=True)
class TracedWorld:
    """What the traces say of the world.

    Args:
        path: what was opened, for messages.
        size: ranks of the job.
        present: those that have a trace, in order.
        groups: those that they communicate in.
        paired: of each rank the places in `groups` of those in which it sends to, or receives from, single ranks.
    """

    path: str
    size: int
    present: tuple[int, ...]
    groups: tuple[TracedGroup, ...]
    paired: dict[int, frozenset[int]]

    def groups_of(self, rank: int) -> list[int]:
        """The places of the groups in which the trace of a rank communicates."""
        return [origin for origin, group in enumerate(self.groups) if rank in group.participants]


def simulated_ranks(world: TracedWorld, options: PlanOptions) -> tuple[PlannedRank, ...]:
    """The ranks that are simulated, in order.

    Raises:
        InputError: ranks are missing, and may not be, or cannot be replicated.
        ArgumentError: the world is asked to be smaller than it is.
    """
    size = _size(world, options)
    missing = [rank for rank in range(size) if rank not in set(world.present)]
    if options.missing is MissingRanks.SHRINK or not missing:
        numbers = world.present
        found = tuple(PlannedRank(origin, number, number) for origin, number in enumerate(numbers))
    elif options.missing is MissingRanks.REFUSE:
        raise _refused(world, size, missing)
    else:
        replaced = {rank: _source(world, rank, size) for rank in missing}
        found = tuple(PlannedRank(rank, rank, replaced.get(rank, rank)) for rank in range(size))
    if len(found) < _LEAST_OF_ASTRA_SIM and options.dialect is Dialect.ASTRA_SIM:
        raise _too_few(world)
    return found


def groups_of_rank(world: TracedWorld, rank: PlannedRank, size: int) -> dict[int, tuple[int, ...]]:
    """The ranks of each group in which a rank communicates, by the place of the source's group in `world.groups`.

    Args:
        world: what the traces say.
        rank: a simulated rank.
        size: ranks of the simulated world; without those that are missing, where it is shrunk.
    """
    if not rank.is_replica and size <= world.size:
        return {origin: world.groups[origin].ranks for origin in world.groups_of(rank.source)}
    images = {origin: _image(world, origin, rank.world_rank, size) for origin in world.groups_of(rank.source)}
    return {origin: image for origin, image in images.items() if image is not None}


def _size(world: TracedWorld, options: PlanOptions) -> int:
    size = options.world_size
    if size is None:
        return world.size
    if not world.size <= size <= _MOST_RANKS:
        raise ArgumentError(
            f"a world of {size} ranks: the traces are of one of {world.size}; give that or more"
        )
    if size > world.size and options.missing is not MissingRanks.REPLICATE:
        raise ArgumentError(
            f"a world of {size} ranks has more than the {world.size} of the traces: give {_REPLICATE}"
        )
    return size


def _source(world: TracedWorld, rank: int, size: int) -> int:
    """The rank whose work a missing rank does: the first one all of whose groups have a counterpart."""
    unlike: list[str] = []
    for source in _candidates(world, rank):
        problem = next(_unlike(world, source, rank, size), None)
        if problem is None:
            return source
        unlike.append(problem)
    raise InputError(
        world.path,
        f"rank {rank} is missing and cannot replicate another: {unlike[0]}",
        "Capture that rank, or give --missing shrink",
    )


def _candidates(world: TracedWorld, rank: int) -> list[int]:
    """Ranks that have a trace: the one at the same place of its block of ranks, then by their distance."""
    present = world.present
    block = len(present) if present == tuple(range(len(present))) else world.size
    return sorted(present, key=lambda other: (other != rank % block, abs(other - rank), other))


def _unlike(world: TracedWorld, source: int, rank: int, size: int) -> Iterator[str]:
    """What of a source's communication a rank cannot do in groups of its own."""
    for origin in world.groups_of(source):
        group = world.groups[origin]
        image = _image(world, origin, rank, size)
        if image is None:
            yield f"which ranks are in its group like {_named(group)} of rank {source} is not known"
        elif origin in world.paired.get(source, ()) and image.index(rank) != group.ranks.index(source):
            yield (
                f"rank {source} sends to or receives from single ranks of {_named(group)}, in which rank {rank} has "
                "another place"
            )


def _image(world: TracedWorld, origin: int, rank: int, size: int) -> tuple[int, ...] | None:
    group = world.groups[origin]
    if not group.is_listed and len(group.ranks) < world.size:
        # Its ranks are only those that take part: others may be missing.
        return group.ranks if rank in group.ranks else None
    known = [other.ranks for other in world.groups if other.is_listed]
    return group_image(group.ranks, rank, (world.size, size), known)


def _named(group: TracedGroup) -> str:
    name = group.description or group.name
    return (
        f"the group {name!r} of ranks {_listed(group.ranks)}"
        if name
        else f"that of ranks {_listed(group.ranks)}"
    )


def _listed(ranks: Sequence[int]) -> str:
    return numbers_text(sorted(ranks))


def _refused(world: TracedWorld, size: int, missing: list[int]) -> InputError:
    return InputError(
        world.path,
        f"of {size} ranks {len(missing)} have no trace: {_listed(missing)}",
        f"Give the folder with the traces of all ranks, or {_REPLICATE} (each does what one that is there does) or "
        "--missing shrink (the world is that of those that are there)",
    )


def _too_few(world: TracedWorld) -> InputError:
    advice = f"Give {_REPLICATE}" if world.size > 1 else f"Give {_REPLICATE} with --world-size 2 or more"
    return InputError(
        world.path,
        f"only rank {world.present[0]} is simulated, and ASTRA-sim needs two ranks at least",
        advice,
    )
