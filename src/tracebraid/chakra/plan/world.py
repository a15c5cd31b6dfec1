"""Simulated ranks, the source rank of each, and their process groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl
from msgspec import Struct, field

from tracebraid.chakra.codes import Dialect, MissingRanks
from tracebraid.chakra.schema import CHAKRA_COMMUNICATION, AttributeValue
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.collectives import Division, ranks_in_text, ranks_of
from tracebraid.model.finding import Finding
from tracebraid.model.quantities import numbers_text


class PlanOptions(Struct, frozen=True):
    """Options of a plan.

    Args:
        missing: what becomes of ranks of the world that have no trace.
        dialect: which types of communication the nodes may have.
        world_size: ranks of the simulated world, at least those of the traces' world; None: as many as these.
        steps: names of the steps that are simulated; None: all of the traces.
        single_lane: each rank does one communication at a time: it is ordered by its ends, and its times are those of
            such a lane.
        divisions: by which each rank of the world becomes several, one after the other.
    """

    missing: MissingRanks = MissingRanks.REFUSE
    dialect: Dialect = Dialect.CHAKRA
    world_size: int | None = None
    steps: tuple[str, ...] | None = None
    single_lane: bool = False
    divisions: tuple[Division, ...] = ()


class PlannedRank(Struct, frozen=True):
    """A rank that is simulated.

    Args:
        rank: its number in the simulation, dense from 0 up: that of its file.
        world_rank: its number in the job.
        source: the rank, by its number in the traces, whose work it does.
        is_replica: whether it has no trace of its own.
        pipeline: the ranks of the stages of its pipeline, by their dense numbers in order; none: it is in none.
    """

    rank: int
    world_rank: int
    source: int
    is_replica: bool = False
    pipeline: tuple[int, ...] = ()


class PlannedGroup(Struct, frozen=True):
    """A process group that is simulated.

    Args:
        number: its number; 0: all ranks, which needs no entry in a comm-group file.
        ranks: the simulated ranks, in the order of the group.
        world_ranks: the job's numbers of all of its ranks; those that are missing may be left out of `ranks`.
        name: what the traces call it; of a group of missing ranks as that which it was made from; None: unknown.
        description: likewise.
    """

    number: int
    ranks: tuple[int, ...]
    world_ranks: tuple[int, ...]
    name: str | None = None
    description: str | None = None


class JobPlan(Struct, frozen=True, eq=False):
    """Plan of a simulated job.

    Args:
        options: how it was made.
        traced_world: ranks of the job, as the traces say.
        ranks: the ranks that are simulated, in the order of their numbers.
        groups: the groups that they communicate in, in the order of their numbers.
        communication: `CHAKRA_COMMUNICATION` of all ranks, with `rank`, by rank and order.
        counts: what was mapped to what, and how often: of all ranks together.
        findings: the findings.
        mostly_alone: what is simulated alone, where that is most of the communication; None: it is not.
    """

    options: PlanOptions
    traced_world: int
    ranks: tuple[PlannedRank, ...]
    groups: tuple[PlannedGroup, ...]
    communication: pl.DataFrame
    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    mostly_alone: str | None = None

    def __repr__(self) -> str:
        """Return a short description."""
        return (
            f"JobPlan(ranks={len(self.ranks)}, groups={len(self.groups)}, "
            f"communication={self.communication.height}, findings={len(self.findings)})"
        )

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of the job that have no trace, by their numbers in the job."""
        known = {rank.source for rank in self.ranks}
        return tuple(number for number in range(self.traced_world) if number not in known)

    def of_source(self, source: int) -> tuple[PlannedRank, ...]:
        """The simulated ranks whose work is of the trace of a rank: itself and those that replicate it."""
        return tuple(rank for rank in self.ranks if rank.source == source)

    def communication_of(self, rank: int) -> pl.DataFrame:
        """`CHAKRA_COMMUNICATION` of a simulated rank, by its dense number."""
        return CHAKRA_COMMUNICATION.conform(self.communication.filter(pl.col("rank") == rank))

    def comm_groups(self) -> dict[str, list[int]]:
        """The content of a comm-group file: the ranks of each group, by its number as text."""
        return {str(group.number): list(group.ranks) for group in self.groups if group.number}

    def attributes(self) -> tuple[tuple[str, AttributeValue], ...]:
        """Return the plan's metadata of each file, equal for all ranks and every engine."""
        replicas = sum(rank.is_replica for rank in self.ranks)
        return (
            ("missing_ranks", self.options.missing.value),
            ("dialect", self.options.dialect.value),
            ("traced_world_size", self.traced_world),
            ("world_size", len(self.ranks)),
            ("replicated_ranks", replicas),
            *((f"communication.{name}", count) for name, count in self.counts.items()),
        )

    def facts(self) -> dict[str, object]:
        """Return the facts for people and programs: ranks, groups and mappings."""
        return {
            "missing_ranks": self.options.missing.value,
            "dialect": self.options.dialect.value,
            "traced_world_size": self.traced_world,
            "world_size": len(self.ranks),
            "ranks": [
                {"rank": rank.rank, "world_rank": rank.world_rank, "source": rank.source}
                for rank in self.ranks
            ],
            "groups": [
                {
                    "pg_name": str(group.number),
                    "name": group.name,
                    "description": group.description,
                    "ranks": list(group.ranks),
                    "world_ranks": list(group.world_ranks),
                }
                for group in self.groups
            ],
            "communication": dict(self.counts),
        }


def group_image(
    group: Sequence[int], rank: int, worlds: tuple[int, int], known: Iterable[Sequence[int]] = ()
) -> tuple[int, ...] | None:
    """The group of a rank that stands to it as a group stands to one of its own ranks; None: unknown.

    All ranks remain all ranks. A group that has the rank is its own. Else it is a known group that has the rank and is
    the same one moved; else the one that follows when the group's pattern fills the world: first ranks at one distance
    (`[0, 2, 4, 6]` becomes `[1, 3, 5, 7]`), then blocks (`[0, 1, 4, 5]` of a world of 16 becomes `[8, 9, 12, 13]`).
    """
    traced, world = worlds
    own = tuple(group)
    if set(own) == set(range(traced)):
        return (*own, *range(traced, world))
    if rank in own:
        return own
    moved = {tuple(other) for other in known if rank in other and _is_moved(own, other)}
    if len(moved) == 1:
        return moved.pop()
    return _by_distance(own, rank, world) or _by_block(own, rank, world)


def _is_moved(group: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether it is the same group at another place, and has no rank of it."""
    distances = {there - here for here, there in zip(group, other, strict=False)}
    return len(group) == len(other) and len(distances) == 1 and set(group).isdisjoint(other)


def _by_distance(group: tuple[int, ...], rank: int, world: int) -> tuple[int, ...] | None:
    if len(group) == 1:
        return (rank,)
    distance, size = group[1] - group[0], len(group)
    if distance < 1 or world % (distance * size) or group != _at_distance(group[0], distance, size):
        return None
    return _at_distance(rank, distance, size)


def _at_distance(rank: int, distance: int, size: int) -> tuple[int, ...]:
    """The ranks of a rank's group where groups of that size and distance fill the world."""
    first = rank - rank % (distance * size) + rank % distance
    return tuple(range(first, first + distance * size, distance))


def _by_block(group: tuple[int, ...], rank: int, world: int) -> tuple[int, ...] | None:
    for block in _divisors(world):
        if len({member // block for member in group}) == 1:
            offset = (rank // block - group[0] // block) * block
            image = tuple(member + offset for member in group)
            return image if rank in image else None
    return None


@lru_cache(maxsize=1)
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(block for block in range(1, number + 1) if number % block == 0)


_MOST_RANKS = 2**20
"""More ranks than any job has: a number beyond is damaged."""


class TracedGroup(Struct, frozen=True):
    """A process group of the job.

    Args:
        text: its identification, as `group` of `MEMBERS`.
        ranks: its ranks, by their numbers in the job.
        participants: those of them whose traces communicate in it.
        is_listed: whether a trace lists its ranks; else they are assumed to be all ranks if all traces take
            part, or those that do.
        name: its name in the traces; None: unknown.
        description: likewise.
    """

    text: str
    ranks: tuple[int, ...]
    participants: tuple[int, ...]
    is_listed: bool
    name: str | None
    description: str | None


def traced_world(ranks: pl.DataFrame, members: pl.DataFrame) -> int:
    """The number of ranks of the job, as the traces say; at least one more than the highest rank."""
    highest: int = max([-1, *ranks.get_column("rank").to_list()])
    said: list[int] = [
        size for size in ranks.get_column("world_size").drop_nulls().to_list() if 0 < size <= _MOST_RANKS
    ]
    if said:
        return max(*said, highest + 1)
    listed = [rank for text in _texts(members) for rank in ranks_in_text(text) if rank < _MOST_RANKS]
    return 1 + max(highest, *listed, 0)


def traced_groups(members: pl.DataFrame, present: Sequence[int], world: int) -> list[TracedGroup]:
    """The groups, in the order in which members first name them."""
    found = members.group_by("group", maintain_order=True).agg(
        pl.col("rank").unique().sort(),
        pl.col("group_ranks").cast(pl.String).drop_nulls().first(),
        pl.col("process_group").drop_nulls().first(),
        pl.col("description").drop_nulls().first(),
    )
    return [_group(row, present, world) for row in found.iter_rows(named=True)]


def _group(row: Mapping[str, Any], present: Sequence[int], world: int) -> TracedGroup:
    ranks = tuple(dict.fromkeys(ranks_in_text(row["group_ranks"])))
    participants = tuple(row["rank"])
    is_listed = set(participants) <= set(ranks) and all(0 <= rank < world for rank in ranks)
    if not is_listed:
        ranks = tuple(range(world)) if len(participants) == len(present) else participants
    return TracedGroup(row["group"], ranks, participants, is_listed, row["process_group"], row["description"])


def _texts(members: pl.DataFrame) -> list[str]:
    texts: list[str] = (
        members.get_column("group_ranks").cast(pl.String).drop_nulls().unique().sort().to_list()
    )
    return texts


_LEAST_OF_ASTRA_SIM = 2
"""Ranks that ASTRA-sim needs: its networks have no fewer."""
_REPLICATE = "--missing replicate"


class TracedWorld(Struct, frozen=True):
    """World as the traces describe it.

    Args:
        path: the opened path, for messages.
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
    """The ranks that are simulated, in order."""
    size = _size(world, options)
    missing = [rank for rank in range(size) if rank not in set(world.present)]
    if options.missing is MissingRanks.SHRINK or not missing:
        numbers = world.present
        found = tuple(PlannedRank(origin, number, number) for origin, number in enumerate(numbers))
    elif options.missing is MissingRanks.REFUSE:
        raise _refused(world, size, missing)
    else:
        replaced = {rank: _source(world, rank, size) for rank in missing}
        found = tuple(
            PlannedRank(rank, rank, replaced.get(rank, rank), rank in replaced) for rank in range(size)
        )
    count = len(found) * ranks_of(options.divisions)
    if count < _LEAST_OF_ASTRA_SIM and options.dialect is Dialect.ASTRA_SIM:
        raise _too_few(world)
    return found


def groups_of_rank(world: TracedWorld, rank: PlannedRank, size: int) -> dict[int, tuple[int, ...]]:
    """The ranks of each group in which a rank communicates, by the place of the source's group in `world.groups`."""
    if not rank.is_replica and size <= world.size:
        return {origin: world.groups[origin].ranks for origin in world.groups_of(rank.source)}
    images = {origin: _image(world, origin, rank.world_rank, size) for origin in world.groups_of(rank.source)}
    return {origin: image for origin, image in images.items() if image is not None}


def _size(world: TracedWorld, options: PlanOptions) -> int:
    size = options.world_size
    if size is None:
        return world.size
    each = ranks_of(options.divisions)
    if not world.size <= size <= _MOST_RANKS:
        raise ArgumentError(
            f"a world of {size * each} ranks: the traces are of one of {world.size * each}; give that or more"
        )
    if size > world.size and options.missing is not MissingRanks.REPLICATE:
        raise ArgumentError(
            f"a world of {size * each} ranks has more than the {world.size * each} of the traces: give {_REPLICATE}"
        )
    return size


def _source(world: TracedWorld, rank: int, size: int) -> int:
    """Return the source of a missing rank: the first rank all of whose groups have a counterpart."""
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
    """Communication of a source that a rank cannot run in its own groups."""
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


class GroupsOfRanks(Struct, frozen=True):
    """Process groups of the simulated ranks, identified by position.

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


class NumberedGroups(Struct, frozen=True):
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
    """Determine the process groups of the simulated ranks."""
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
    collectives that a rank has issued, and waits forever where ranks have issued different numbers of others before.
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
    """Index of each group among groups of the same ranks."""
    seen: Counter[tuple[int, ...]] = Counter()
    found = []
    for group in groups:
        found.append(seen[group.ranks])
        seen[group.ranks] += 1
    return found
