"""How much of each device is allocated after each change."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.memory.blocks.blocks import blocks_of_storages, memory_source
from tracebraid.analysis.memory.blocks.pairing import instants, paired
from tracebraid.model.answers import MemorySource
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["usage"]


def usage(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per change, by device in the order of time; kept.

    With instants: what they say is allocated, where that is consistent (each total differs from the one before by its
    size, and what the trace shows alive is never more). Else it is the sum of what the trace shows alive, and of
    the least that can have been allocated before it. Without instants: the sum of the storages of the Execution Trace.

    Columns: device, order, ts_ns, size_bytes, allocated_bytes, reserved_bytes (null: unknown), alive_bytes (of it,
    allocated in the trace), alive_blocks (their number), row (of `host_context`; -1: none).
    """
    if memory_source(linked) is MemorySource.STORAGES:
        return linked.derived(_of_storages, annotation)
    return linked.derived(_of_instants)


def _of_instants(linked: LinkedTrace) -> pl.DataFrame:
    changes = instants(linked).with_columns(_sums_of_blocks(linked)).sort("device", "order")
    changes = changes.with_columns(
        pl.col("alive_bytes", "gone_bytes", "alive_blocks").cum_sum().over("device")
    )
    total, size, alive = pl.col("total_allocated_bytes"), pl.col("size_bytes"), pl.col("alive_bytes")
    adds_up = (total - total.shift(1) - size).fill_null(0).eq(0).all() & total.is_not_null().all()
    holds = (total >= alive).all()
    base = pl.max_horizontal((total.first() - size.first()).fill_null(0), pl.col("gone_bytes").max(), 0)
    summed = base.over("device") - pl.col("gone_bytes") + alive
    has_reserve = pl.col("total_reserved_bytes").max().over("device") > 0
    return changes.select(
        *("device", "order", "ts_ns", "size_bytes"),
        pl.when((adds_up & holds).over("device")).then(total).otherwise(summed).alias("allocated_bytes"),
        pl.when(has_reserve).then("total_reserved_bytes").alias("reserved_bytes"),
        *("alive_bytes", "alive_blocks", "row"),
    )


def _sums_of_blocks(linked: LinkedTrace) -> list[pl.Series]:
    """What each change adds to the trace's own blocks that are alive, and to what is gone of those from before."""
    in_trace = paired(linked).filter(pl.col("begin_ns").is_not_null())
    before = paired(linked).filter(pl.col("begin_ns").is_null())
    amounts = {name: np.zeros(instants(linked).height, dtype=np.int64) for name in _AMOUNTS}
    for found, order, factor in (
        (in_trace, "begin_order", 1),
        (in_trace, "end_order", -1),
        (before, "end_order", 0),
    ):
        known = found.filter(pl.col(order).is_not_null())
        orders, sizes = known.get_column(order).to_numpy(), known.get_column("size_bytes").to_numpy()
        if factor:
            np.add.at(amounts["alive_bytes"], orders, factor * sizes)
            np.add.at(amounts["alive_blocks"], orders, factor)
        else:
            np.add.at(amounts["gone_bytes"], orders, sizes)
    return [pl.Series(name, values) for name, values in amounts.items()]


_AMOUNTS = ("alive_bytes", "alive_blocks", "gone_bytes")


def _of_storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    found = blocks_of_storages(linked, annotation)
    span = linked.timeline.span_ns or (0, 0)
    begins = found.select(
        "device",
        pl.col("begin_order").alias("order"),
        pl.col("begin_ns").fill_null(span[0]).alias("ts_ns"),
        "size_bytes",
        pl.when(pl.col("begin_ns").is_null()).then(0).otherwise("size_bytes").alias("alive_bytes"),
        pl.col("begin_ns").is_not_null().cast(pl.Int64).alias("alive_blocks"),
    )
    ends = found.filter(pl.col("end_ns").is_not_null()).select(
        "device",
        pl.col("end_order").alias("order"),
        pl.col("end_ns").alias("ts_ns"),
        -pl.col("size_bytes"),
        -pl.col("size_bytes").alias("alive_bytes"),
        pl.lit(-1, dtype=pl.Int64).alias("alive_blocks"),
    )
    in_order = pl.concat([begins, ends]).sort("device", "order")
    return in_order.select(
        *("device", "order", "ts_ns", "size_bytes"),
        pl.col("size_bytes").cum_sum().over("device").alias("allocated_bytes"),
        pl.lit(None, dtype=pl.Int64).alias("reserved_bytes"),
        pl.col("alive_bytes", "alive_blocks").cum_sum().over("device"),
        pl.lit(-1, dtype=pl.Int64).alias("row"),
    )
