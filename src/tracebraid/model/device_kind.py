"""What a device event is busy with: computing, communicating, moving memory, or only waiting."""

from __future__ import annotations

import polars as pl

__all__ = ["COMMUNICATION", "COMPUTE", "MEMORY", "WAIT", "kind_of_device_event"]

COMPUTE = "compute"
COMMUNICATION = "communication"
MEMORY = "memory"
WAIT = "wait"

_COLLECTIVE_LIBRARY = r"(?i)nccl|rccl|oneccl|nvshmem|rocshmem|cross_device_reduce"
_COPY_CATEGORIES = ["gpu_memcpy", "gpu_memset"]
_COPY_NAMES = ["dma_request"]
_WAIT_NAMES = ["event_wait", "event_record"]


def kind_of_device_event(has_collective_args: pl.Expr) -> pl.Expr:
    """The kind of each device event, from the columns `name` and `category`.

    Communication is what carries collective arguments, has the category `collective_comm`, or is named after a
    communication library (its kernels carry the arguments only since 2024). Memory is copies and fills. Waiting
    is what a device queue does between work (`event_wait` on MTIA): it occupies nothing. All else computes.
    """
    name, category = pl.col("name").cast(pl.String), pl.col("category").cast(pl.String)
    return (
        pl.when(has_collective_args | (category == "collective_comm"))
        .then(pl.lit(COMMUNICATION))
        .when(category.is_in(_COPY_CATEGORIES) | name.is_in(_COPY_NAMES))
        .then(pl.lit(MEMORY))
        .when(name.is_in(_WAIT_NAMES))
        .then(pl.lit(WAIT))
        .when(name.str.contains(_COLLECTIVE_LIBRARY))
        .then(pl.lit(COMMUNICATION))
        .otherwise(pl.lit(COMPUTE))
    )
