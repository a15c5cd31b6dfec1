"""Which ranks are in the process groups that traces communicate in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracebraid.model.collectives.group_ranks import ranks_in_text

__all__ = ["TracedGroup", "traced_groups", "traced_world"]

_MOST_RANKS = 2**20
"""More ranks than any job has: a number beyond is damaged."""


@dataclass(frozen=True)
class TracedGroup:
    """A process group of the job.

    Args:
        text: what tells it apart, as `group` of `MEMBERS`.
        ranks: its ranks, by their numbers in the job.
        participants: those of them whose traces communicate in it.
        is_listed: whether a trace says which ranks it has; else they are taken to be all ranks if all traces take
            part, or those that do.
        name: what the traces call it; None: unknown.
        description: likewise.
    """

    text: str
    ranks: tuple[int, ...]
    participants: tuple[int, ...]
    is_listed: bool
    name: str | None
    description: str | None


def traced_world(ranks: pl.DataFrame, members: pl.DataFrame) -> int:
    """The number of ranks of the job, as the traces say; at least one more than the highest rank.

    Args:
        ranks: `RANKS`.
        members: `MEMBERS`.
    """
    highest: int = max([-1, *ranks.get_column("rank").to_list()])
    said: list[int] = [
        size for size in ranks.get_column("world_size").drop_nulls().to_list() if 0 < size <= _MOST_RANKS
    ]
    if said:
        return max(*said, highest + 1)
    listed = [rank for text in _texts(members) for rank in ranks_in_text(text) if rank < _MOST_RANKS]
    return 1 + max(highest, *listed, 0)


def traced_groups(members: pl.DataFrame, present: Sequence[int], world: int) -> list[TracedGroup]:
    """The groups, in the order in which members first name them.

    Args:
        members: `MEMBERS`, matched; `group` is never null.
        present: the ranks that have a trace.
        world: the number of ranks of the job.
    """
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
