"""The process groups of the simulated ranks, numbered as simulators want them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracebraid.exporters.chakra.plan.traced_groups import TracedGroup
from tracebraid.exporters.chakra.plan.world import TracedWorld, groups_of_rank
from tracebraid.model.chakra.codes import MissingRanks
from tracebraid.model.chakra.job_plan import PlannedGroup, PlannedRank, PlanOptions

__all__ = ["GroupsOfRanks", "NumberedGroups", "groups_of_ranks", "numbered_groups"]


@dataclass(frozen=True)
class GroupsOfRanks:
    """In which groups the simulated ranks communicate; a group is known by its place here.

    Args:
        whole: of each group the job's numbers of its ranks, in the order of the group.
        ranks: those of them that are simulated, by their dense numbers, in the order of the group.
        origins: the place of the traced group that each is made from.
        of_rank: of each simulated rank, by the place of the traced group of its source, the place of the group.
    """

    whole: tuple[tuple[int, ...], ...]
    ranks: tuple[tuple[int, ...], ...]
    origins: tuple[int, ...]
    of_rank: tuple[Mapping[int, int], ...]


@dataclass(frozen=True)
class NumberedGroups:
    """The groups of the simulation.

    Args:
        groups: those that communicate, in the order of their numbers.
        of_entry: the number of each by its place among `GroupsOfRanks`.
        alone: the number of the group that has a rank alone, by the rank.
    """

    groups: tuple[PlannedGroup, ...]
    of_entry: Mapping[int, int]
    alone: Mapping[int, int]


def groups_of_ranks(world: TracedWorld, ranks: Sequence[PlannedRank], options: PlanOptions) -> GroupsOfRanks:
    """In which groups the simulated ranks communicate.

    Args:
        world: what the traces say.
        ranks: the simulated ranks.
        options: how the job becomes a plan.
    """
    dense = {rank.world_rank: rank.rank for rank in ranks}
    size = len(ranks) if options.missing is MissingRanks.REPLICATE else world.size
    # Several groups may have the same ranks: a group is told apart by these and its place among them.
    entries: dict[tuple[tuple[int, ...], int], int] = {}
    nth = _nth_of_same_ranks(world.groups)
    origins: list[int] = []
    of_rank: list[dict[int, int]] = []
    for rank in ranks:
        own = {}
        for origin, image in groups_of_rank(world, rank, size).items():
            own[origin] = entries.setdefault((image, nth[origin]), len(entries))
            if own[origin] == len(origins):
                origins.append(origin)
        of_rank.append(own)
    whole = tuple(image for image, _ in entries)
    simulated = tuple(tuple(dense[number] for number in image if number in dense) for image in whole)
    return GroupsOfRanks(whole, simulated, tuple(origins), tuple(of_rank))


def numbered_groups(
    found: GroupsOfRanks,
    used: Sequence[int],
    alone: Sequence[int],
    world: TracedWorld,
    ranks: Sequence[PlannedRank],
) -> NumberedGroups:
    """The groups that communicate, numbered from 1 on, single ranks last; one of all ranks that is the only one is 0.

    Beside other groups that of all ranks needs a number, too: ASTRA-sim numbers the messages of group 0 by all
    collectives that a rank has issued, and waits for ever where ranks have issued different numbers of others before.

    Args:
        found: the groups of all ranks.
        used: the places of those in which ranks communicate with each other.
        alone: the ranks that communicate alone.
        world: what the traces say.
        ranks: the simulated ranks.
    """
    is_only = len(used) == 1 and len(found.ranks[used[0]]) == len(ranks)
    first = 0 if is_only else 1
    of_entry = {entry: number for number, entry in enumerate(used, first)}
    groups = [_planned(number, found, entry, world) for entry, number in of_entry.items()]
    singles = (
        {0: 0} if len(ranks) == 1 else {rank: first + len(used) + at for at, rank in enumerate(sorted(alone))}
    )
    groups += [
        PlannedGroup(number, (rank,), (ranks[rank].world_rank,))
        for rank, number in singles.items()
        if rank in alone
    ]
    return NumberedGroups(tuple(sorted(groups, key=lambda group: group.number)), of_entry, singles)


def _planned(number: int, found: GroupsOfRanks, entry: int, world: TracedWorld) -> PlannedGroup:
    traced = world.groups[found.origins[entry]]
    return PlannedGroup(number, found.ranks[entry], found.whole[entry], traced.name, traced.description)


def _nth_of_same_ranks(groups: Sequence[TracedGroup]) -> list[int]:
    """Of each group how many groups of the same ranks stand before it."""
    seen: Counter[tuple[int, ...]] = Counter()
    found = []
    for group in groups:
        found.append(seen[group.ranks])
        seen[group.ranks] += 1
    return found
