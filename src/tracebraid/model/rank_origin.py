"""`RankOrigin`: on which host a rank ran, and in which parallel groups."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GroupOfRank", "RankOrigin"]


@dataclass(frozen=True)
class GroupOfRank:
    """A process group that a rank is a member of.

    Args:
        kind: what the group is for, as the program says (`pg_desc`); groups of one kind divide the ranks among them.
        ranks: its global ranks, in its own order.
    """

    kind: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class RankOrigin:
    """Where a rank ran.

    Args:
        rank: the rank.
        host: the name of its host; "" where it is unknown.
        groups: its process groups, as far as their ranks are listed.
    """

    rank: int
    host: str = ""
    groups: tuple[GroupOfRank, ...] = ()
