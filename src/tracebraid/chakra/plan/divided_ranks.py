"""Ranks in the place of one each, of whom the traces show one: of tensor parallelism, a pipeline, or replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from msgspec import Struct

from tracebraid.chakra.plan.world import GroupsOfRanks, PlannedRank, TracedGroup
from tracebraid.model.collectives import Division

_RANKS = ("rank", "from_rank", "to_rank")


class RankGroups(Struct, frozen=True, eq=False):
    """Simulated ranks, their process groups, and `planned_communication` of them."""

    ranks: tuple[PlannedRank, ...]
    groups: GroupsOfRanks
    communication: pl.DataFrame


class _Numbers(Struct, frozen=True):
    """Numbers of the ranks in the place of one: so much for each rank, and for each that divides it."""

    of_rank: int
    of_shard: int

    def all(self, rank: int, shards: int) -> tuple[int, ...]:
        """Those in the place of a rank."""
        return tuple(rank * self.of_rank + shard * self.of_shard for shard in range(shards))


def divided(planned: RankGroups, traced: Sequence[TracedGroup], division: Division) -> RankGroups:
    """Let several ranks, each the same, be in the place of one.

    Those at one place communicate with each other as the ranks did that they replace. All that replace a rank do
    together what that does in the division's group.

    Args:
        planned: the ranks that are divided.
        traced: the groups of the traces, which `planned` counts.
        division: into how many.
    """
    shards = division.ranks
    sizes = (len(planned.ranks), 1 + max(rank.world_rank for rank in planned.ranks))
    dense, whole = (_Numbers(shards, 1) if division.is_inner else _Numbers(1, size) for size in sizes)
    origin_of = {group.text: origin for origin, group in enumerate(traced)}
    of_rank = {rank.rank: origin_of.get(division.group_of(rank.source)) for rank in planned.ranks}
    origins = {rank: origin for rank, origin in of_rank.items() if origin is not None}
    groups = _groups(planned, origins, shards, (dense, whole))
    entries = dict(zip(origins, range(len(groups.whole) - len(origins), len(groups.whole)), strict=True))
    together = pl.col("origin").is_in(list(origins.values())).fill_null(value=False)
    own = pl.col("rank").replace_strict(entries, default=None, return_dtype=pl.Int64)
    shard = pl.col("shard")
    rows = planned.communication.join(pl.DataFrame({"shard": range(shards)}), how="cross").with_columns(
        pl.when(together).then(own).otherwise(pl.col("entry") * shards + shard).alias("entry"),
        pl.col("item") * shards + pl.when(together).then(0).otherwise(shard),
        pl.when(~together).then("reason").alias("reason"),
        *(pl.col(name) * dense.of_rank + shard * dense.of_shard for name in _RANKS),
    )
    ranks = []
    for rank in planned.ranks:
        numbers = dense.all(rank.rank, shards)
        worlds = whole.all(rank.world_rank, shards)
        for n, (number, world_rank) in enumerate(zip(numbers, worlds, strict=True)):
            there = tuple(dense.all(each, shards)[n] for each in rank.pipeline)
            stages = numbers if division.are_stages else there
            is_replica = rank.is_replica or (n > 0 and not division.are_stages)
            ranks.append(PlannedRank(number, world_rank, rank.source, is_replica, stages))
    return RankGroups(
        tuple(sorted(ranks, key=lambda rank: rank.rank)),
        groups,
        rows.drop("shard").sort("rank", maintain_order=True),
    )


def _groups(
    planned: RankGroups, origins: Mapping[int, int], shards: int, numbers: tuple[_Numbers, _Numbers]
) -> GroupsOfRanks:
    """Each group once for each place, and behind these those of the ranks in the place of one."""
    found = planned.groups
    ranks, whole = (
        [each for group in groups for each in zip(*(own.all(rank, shards) for rank in group), strict=True)]
        for groups, own in zip((found.ranks, found.whole), numbers, strict=True)
    )
    of_rank: list[dict[int, int]] = [{} for _ in range(len(planned.ranks) * shards)]
    for rank, entries in enumerate(found.of_rank):
        for n, number in enumerate(numbers[0].all(rank, shards)):
            of_rank[number] = {origin: entry * shards + n for origin, entry in entries.items()}
    for rank, origin in origins.items():
        together = numbers[0].all(rank, shards)
        for number in together:
            of_rank[number][origin] = len(ranks)
        ranks.append(together)
        whole.append(numbers[1].all(planned.ranks[rank].world_rank, shards))
    every = [origin for origin in found.origins for _ in range(shards)]
    return GroupsOfRanks(tuple(whole), tuple(ranks), (*every, *origins.values()), tuple(of_rank))
