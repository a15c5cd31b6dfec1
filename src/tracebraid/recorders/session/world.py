"""Rank, world size and devices of this process."""

from __future__ import annotations

import os
from typing import Any

from msgspec import Struct

from tracebraid.recorders.needs_torch import torch


class World(Struct, frozen=True):
    """A process's rank among the others.

    Args:
        rank: its global rank.
        world_size: number of ranks.
        source: their source: `torch.distributed`, `environment` (RANK and WORLD_SIZE), or `alone`.
        backend: the default process group's backend; None without one.
        process_groups: as torch.distributed describes them; empty without any.
    """

    rank: int
    world_size: int
    source: str
    backend: str | None = None
    process_groups: tuple[dict[str, Any], ...] = ()


def world() -> World:
    """This process's rank now: from torch.distributed once it is initialised, else RANK and WORLD_SIZE, else 0 of 1."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        groups = tuple(dict(group) for group in distributed.distributed_c10d._world.pg_config_info)
        return World(
            distributed.get_rank(),
            distributed.get_world_size(),
            "torch.distributed",
            str(distributed.get_backend()),
            groups,
        )
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdecimal() and size.isdecimal() and int(rank) < int(size):
        return World(int(rank), int(size), "environment")
    return World(0, 1, "alone")


def devices() -> list[dict[str, Any]]:
    """The accelerators that this process sees: kind, index, name, memory in bytes; those that torch can name."""
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            {
                "kind": "rocm" if torch.version.hip else "cuda",
                "index": index,
                "name": properties.name,
                "total_memory_bytes": properties.total_memory,
            }
        )
    return found
