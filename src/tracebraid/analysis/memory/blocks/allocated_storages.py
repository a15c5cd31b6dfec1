"""Which storage of the Execution Trace an allocation became."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.memory.blocks.pairing import CPU, paired
from tracebraid.analysis.memory.blocks.storages import storages
from tracebraid.analysis.memory.host.host_context import host_context
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["allocated_storages"]

_Ints = NDArray[np.int64]

_LEVELS = 4
"""How many ops, from the innermost around an allocation outwards, may be the one that made the storage."""

_ROUNDED = 512
"""Bytes of which the allocators of devices give multiples (`kMinBlockSize` of c10's CUDA caching allocator)."""

_SPARE = 1 << 20
"""Bytes at most that a block may have to spare (`kSmallSize` of c10's CUDA caching allocator: no split below)."""


def allocated_storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Rows `allocation` (row number in `paired`) and `storage` (in `storages`), both unique; kept.

    Addresses are in the Kineto trace alone, ids of storages in the Execution Trace alone: what joins them is the op.
    An allocation that outlives the op around it became a storage that this op made. Where an op made several,
    those of equal size are joined in order; then, if one of each is left, those that fit. Where the innermost op
    made none, the ops around it are asked.
    """
    return linked.derived(_allocated_storages, annotation)


def _allocated_storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    context = host_context(linked)
    free = storages(linked, annotation).filter(pl.col("made_event").is_not_null())
    free = free.select("storage", "device", "made_row", "position", pl.col("size_bytes").alias("exact_bytes"))
    blocks = paired(linked).with_row_index("allocation").filter(pl.col("row") >= 0)
    blocks = blocks.with_columns(pl.col("end_ns").fill_null(np.iinfo(np.int64).max))
    op = context.any_op[blocks.get_column("row").to_numpy()] if blocks.height else np.empty(0, dtype=np.int64)
    found = [_NONE]
    for _ in range(_LEVELS):
        with_op = blocks.with_columns(pl.Series("made_row", op, dtype=pl.Int64)).filter(
            pl.col("made_row") >= 0
        )
        ends = context.end_ns[with_op.get_column("made_row").to_numpy()]
        with_op = with_op.filter(pl.col("end_ns") >= pl.Series(ends, dtype=pl.Int64))
        for join in (_of_equal_size, _only_fitting):
            joined = join(with_op, free)
            found.append(joined)
            free = free.join(joined, on="storage", how="anti", maintain_order="left")
            with_op = with_op.join(joined, on="allocation", how="anti", maintain_order="left")
        blocks = blocks.with_columns(pl.Series("op", op, dtype=pl.Int64)).join(
            pl.concat(found), on="allocation", how="anti", maintain_order="left"
        )
        op = _enclosing_op(context.parent, context.any_op, blocks.get_column("op").to_numpy())
        blocks = blocks.drop("op")
    return pl.concat(found).sort("allocation")


_NONE = pl.DataFrame(schema={"allocation": pl.UInt32, "storage": pl.UInt32})


def _enclosing_op(parent: _Ints, any_op: _Ints, op: _Ints) -> _Ints:
    """The op that encloses each op; -1 where there is none."""
    if not len(parent):
        return op
    above = np.where(op >= 0, parent[op], -1)
    found: _Ints = np.where(above >= 0, any_op[above], -1)
    return found


def _of_equal_size(blocks: pl.DataFrame, free: pl.DataFrame) -> pl.DataFrame:
    """In each op the k-th allocation and the k-th storage of a size; sizes of devices are rounded."""
    key = ["device", "made_row", "size_bytes"]
    rounded = (pl.col("exact_bytes") + _ROUNDED - 1) // _ROUNDED * _ROUNDED
    size = pl.when(pl.col("device") == CPU).then("exact_bytes").otherwise(rounded).alias("size_bytes")
    of_storage = (
        free.with_columns(size)
        .sort("position", "storage")
        .with_columns(pl.int_range(pl.len()).over(key).alias("k"))
    )
    of_block = blocks.with_columns(pl.int_range(pl.len()).over(key).alias("k"))
    return of_block.join(of_storage, on=[*key, "k"], maintain_order="left").select("allocation", "storage")


def _only_fitting(blocks: pl.DataFrame, free: pl.DataFrame) -> pl.DataFrame:
    """The op's only allocation left and its only storage left, if the one fits into the other."""
    key = ["device", "made_row"]
    single = pl.len().over(key) == 1
    pairs = blocks.filter(single).join(free.filter(single), on=key, maintain_order="left")
    spare = pl.col("size_bytes") - pl.col("exact_bytes")
    return pairs.filter((spare >= 0) & (spare < _SPARE)).select("allocation", "storage")
