"""Ranks whose work several ranks do together, of whom the traces show one: tensor parallelism."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from msgspec import Struct

from tracebraid.chakra.plan.world import GroupsOfRanks, PlannedRank, TracedGroup
from tracebraid.model.collectives import group_of_shards

_RANKS = ("rank", "from_rank", "to_rank")


class RankGroups(Struct, frozen=True, eq=False):
    """Simulated ranks, their process groups, and `planned_communication` of them."""

    ranks: tuple[PlannedRank, ...]
    groups: GroupsOfRanks
    communication: pl.DataFrame


def divided(planned: RankGroups, traced: Sequence[TracedGroup], shards: int) -> RankGroups:
    """Let so many ranks next to each other do what one does, each the same.

    Those at one place communicate with each other as the ranks did that they divide. All that divide a rank do together
    what that does in `group_of_shards`.

    Args:
        planned: the ranks that are divided.
        traced: the groups of the traces, which `planned` counts.
        shards: into how many.
    """
    origin_of = {group.text: origin for origin, group in enumerate(traced)}
    of_rank = {rank.rank: origin_of.get(group_of_shards(rank.source)) for rank in planned.ranks}
    origins = {rank: origin for rank, origin in of_rank.items() if origin is not None}
    groups = _groups(planned, origins, shards)
    entries = dict(zip(origins, range(len(groups.whole) - len(origins), len(groups.whole)), strict=True))
    together = pl.col("origin").is_in(list(origins.values())).fill_null(value=False)
    own = pl.col("rank").replace_strict(entries, default=None, return_dtype=pl.Int64)
    shard = pl.col("shard")
    rows = planned.communication.join(pl.DataFrame({"shard": range(shards)}), how="cross").with_columns(
        pl.when(together).then(own).otherwise(pl.col("entry") * shards + shard).alias("entry"),
        pl.col("item") * shards + pl.when(together).then(0).otherwise(shard),
        pl.when(~together).then("reason").alias("reason"),
        *(pl.col(name) * shards + shard for name in _RANKS),
    )
    ranks = [
        PlannedRank(
            rank.rank * shards + n, rank.world_rank * shards + n, rank.source, rank.is_replica or n > 0
        )
        for rank in planned.ranks
        for n in range(shards)
    ]
    return RankGroups(tuple(ranks), groups, rows.drop("shard").sort("rank", maintain_order=True))


def _groups(planned: RankGroups, origins: dict[int, int], shards: int) -> GroupsOfRanks:
    """Each group once for each place, and behind these those of the ranks that divide one."""
    found = planned.groups
    places = range(shards)
    whole, ranks = (
        [tuple(number * shards + n for number in group) for group in groups for n in places]
        for groups in (found.whole, found.ranks)
    )
    of_rank = [
        {origin: entry * shards + n for origin, entry in own.items()} for own in found.of_rank for n in places
    ]
    for rank, origin in origins.items():
        world_rank = planned.ranks[rank].world_rank
        for n in places:
            of_rank[rank * shards + n][origin] = len(whole)
        whole.append(tuple(world_rank * shards + n for n in places))
        ranks.append(tuple(rank * shards + n for n in places))
    every = [origin for origin in found.origins for _ in places]
    return GroupsOfRanks(tuple(whole), tuple(ranks), (*every, *origins.values()), tuple(of_rank))
