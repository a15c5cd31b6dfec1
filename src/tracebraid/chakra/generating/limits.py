"""How large a synthetic job may be: a number that is mistyped is refused at once, not after hours or a full disk."""

from __future__ import annotations

from tracebraid.errors import ArgumentError

__all__ = ["LARGEST", "MOST_NODES", "check_nodes", "check_ranks"]

MOST_NODES = 1_000_000
"""Nodes of a rank: several times as many as the largest traces have; they take some 1 GB while a rank is made."""

_MOST_RANKS = 1_000_000
"""Ranks of a job, a file each: several times as many as the largest clusters have accelerators."""

LARGEST = 2**63 - 1
"""What an integer of the files holds."""


def check_ranks(ranks: int) -> None:
    """Refuse a job of too many ranks.

    Raises:
        ArgumentError: it has them.
    """
    if ranks > _MOST_RANKS:
        raise ArgumentError(f"{ranks:,} ranks are more than are generated: give {_MOST_RANKS:,} or fewer")


def check_nodes(nodes: int) -> None:
    """Refuse a rank with too many nodes.

    Args:
        nodes: how many it has at least.

    Raises:
        ArgumentError: it has them.
    """
    if nodes > MOST_NODES:
        raise ArgumentError(f"a rank has more than {MOST_NODES:,} nodes: give fewer steps, repeats or layers")
