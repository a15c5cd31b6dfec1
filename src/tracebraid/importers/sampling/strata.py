"""Strata: the ranks of a job divided by host, by parallel group, and by where in its group a rank is."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.rank_origin import GroupOfRank, RankOrigin

__all__ = ["Strata", "StrataBy", "strata_of"]


class StrataBy(str, Enum):
    """By what ranks are divided."""

    HOST = "host"
    GROUP = "group"
    POSITION = "position"
    """Where in its group a rank is: in a pipeline this is its stage."""


@dataclass(frozen=True, eq=False)
class Strata:
    """A division of the ranks.

    Args:
        by: by what.
        codes: the stratum of each rank, from 0 without gaps.
    """

    by: StrataBy
    codes: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many strata there are."""
        return int(self.codes.max()) + 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Ranks in each stratum."""
        return np.bincount(self.codes)


def strata_of(origins: Sequence[RankOrigin]) -> tuple[Strata, ...]:
    """The divisions of ranks that tell some apart: by host, then by each kind of group, those with few groups first.

    Args:
        origins: one rank each, in the order of ranks.
    """
    by_host = Strata(StrataBy.HOST, _codes([origin.host for origin in origins]))
    # A group of all ranks divides nothing, and its list of ranks is long.
    parts = [
        (origin.rank, [group for group in origin.groups if len(group.ranks) < len(origins)])
        for origin in origins
    ]
    kinds = sorted({group.kind for _, groups in parts for group in groups})
    by_group = [
        Strata(StrataBy.GROUP, _codes([_members(groups, kind) for _, groups in parts])) for kind in kinds
    ]
    by_position = [
        Strata(StrataBy.POSITION, _codes([_positions(rank, groups, kind) for rank, groups in parts]))
        for kind in kinds
    ]
    by_group.sort(key=lambda strata: strata.count)
    # Strata of single ranks tell which ranks there are, and nothing of what they share.
    divided = [strata for strata in (*by_group, *by_position) if 1 < strata.count < len(origins)]
    if by_host.count > 1:
        divided.insert(0, by_host)
    return tuple(divided)


def _members(groups: Sequence[GroupOfRank], kind: str) -> Hashable:
    return tuple(sorted(group.ranks for group in groups if group.kind == kind))


def _positions(rank: int, groups: Sequence[GroupOfRank], kind: str) -> Hashable:
    return tuple(
        sorted(group.ranks.index(rank) for group in groups if group.kind == kind and rank in group.ranks)
    )


def _codes(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """A number for each distinct key, in the order in which they first come."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
