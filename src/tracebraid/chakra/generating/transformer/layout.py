"""Which rank does what: coordinates of ranks in the degrees of parallelism, and the groups that they form.

The rank is `((stage * data + replica) * expert + expert_part) * tensor + tensor_part`: neighbours share
matrices, stages are farthest apart. It is the order `tp-ep-dp-pp` that Megatron-LM has by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tracebraid.model.chakra.workloads import Parallelism

__all__ = ["Coordinates", "Role", "coordinates_of", "groups_of", "members_of", "peer_of", "size_of"]


class Role(Enum):
    """What a group of ranks is for."""

    TENSOR = "tensor"
    """They have the parts of each matrix."""
    EXPERT = "expert"
    """They have the parts of the experts, and exchange tokens."""
    DATA = "data"
    """They have the same weights outside of experts."""
    EXPERT_DATA = "expert_data"
    """They have the same experts; without expert parallelism those of `DATA`."""


@dataclass(frozen=True)
class Coordinates:
    """Where a rank is.

    Args:
        tensor: which part of each matrix.
        expert: which part of the experts.
        data: which replica.
        pipeline: which stage.
    """

    tensor: int
    expert: int
    data: int
    pipeline: int


def coordinates_of(parallelism: Parallelism, rank: int) -> Coordinates:
    """Where a rank is."""
    rest, tensor = divmod(rank, parallelism.tensor)
    rest, expert = divmod(rest, parallelism.expert)
    pipeline, data = divmod(rest, parallelism.data)
    return Coordinates(tensor, expert, data, pipeline)


def size_of(parallelism: Parallelism, role: Role) -> int:
    """Ranks of a group."""
    return {
        Role.TENSOR: parallelism.tensor,
        Role.EXPERT: parallelism.expert,
        Role.DATA: parallelism.data * parallelism.expert,
        Role.EXPERT_DATA: parallelism.data,
    }[role]


def members_of(parallelism: Parallelism, role: Role, rank: int) -> tuple[int, ...]:
    """The ranks of the group of a rank, ascending."""
    at = coordinates_of(parallelism, rank)
    tensor_stride, expert_stride = 1, parallelism.tensor
    data_stride = expert_stride * parallelism.expert
    if role is Role.TENSOR:
        first, stride = rank - at.tensor * tensor_stride, tensor_stride
    elif role is Role.EXPERT:
        first, stride = rank - at.expert * expert_stride, expert_stride
    elif role is Role.EXPERT_DATA:
        first, stride = rank - at.data * data_stride, data_stride
    else:
        first, stride = rank - at.data * data_stride - at.expert * expert_stride, expert_stride
    return tuple(range(first, first + stride * size_of(parallelism, role), stride))


def peer_of(parallelism: Parallelism, rank: int, stages: int) -> int:
    """The rank of the same coordinates so many stages on."""
    return rank + stages * (parallelism.ranks // parallelism.pipeline)


def groups_of(parallelism: Parallelism) -> Iterator[tuple[Role, tuple[int, ...]]]:
    """The groups of two ranks or more, by role and first member; one that is there already is not there again."""
    for role in Role:
        if size_of(parallelism, role) < 2 or (role is Role.EXPERT_DATA and parallelism.expert == 1):
            continue
        for rank in range(parallelism.ranks):
            members = members_of(parallelism, role, rank)
            if members[0] == rank:
                yield role, members
