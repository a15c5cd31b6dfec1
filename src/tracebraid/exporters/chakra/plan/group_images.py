"""In which group does a rank do what another rank does in its own?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

__all__ = ["group_image"]


def group_image(
    group: Sequence[int], rank: int, worlds: tuple[int, int], known: Iterable[Sequence[int]] = ()
) -> tuple[int, ...] | None:
    """The group of a rank that stands to it as a group stands to one of its own ranks; None: unknown.

    All ranks remain all ranks. A group that has the rank is its own. Else it is a known group that has the rank and is
    the same one moved; else the one that follows when the group's pattern fills the world: first ranks at one distance
    (`[0, 2, 4, 6]` becomes `[1, 3, 5, 7]`), then blocks (`[0, 1, 4, 5]` of a world of 16 becomes `[8, 9, 12, 13]`).

    Args:
        group: the ranks of the group.
        rank: a rank of the world.
        worlds: the number of ranks as the traces say, and as it is simulated.
        known: groups that traces name.
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
    """Whether it is the same group at another place, and has no rank of it."""
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
