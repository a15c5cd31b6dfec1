"""Allocations and their releases, paired by address; and the moments at which a device's allocated memory changed."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device import event_columns
from tracebraid.analysis.host.host_rows import innermost_at
from tracebraid.model.linked_trace import LinkedTrace

CPU = "cpu"
"""The device that is the host's memory."""

_CPU_TYPE = 0
"""`c10::DeviceType::CPU`."""

_DEVICE = ["device", "device_type"]


def instants(linked: LinkedTrace) -> pl.DataFrame:
    """The changes of memory in the order of time, kept with the linked trace.

    Columns: order (row number), event_id, ts_ns, device, device_type, address, size_bytes, total_allocated_bytes,
    total_reserved_bytes, row (of `host_context`: innermost host event that holds it; -1: none). Instants without a
    size are left out.
    """
    return linked.derived(_instants)


def _instants(linked: LinkedTrace) -> pl.DataFrame:
    device = (
        pl.when(pl.col("device_type") == _CPU_TYPE)
        .then(pl.lit(CPU))
        .otherwise(pl.col("device_id").cast(pl.String))
    )
    known = linked.timeline.tables["memory"].filter(pl.col("size_bytes").is_not_null())
    event = known.get_column("event_id")
    found = (
        known.with_columns(event_columns(linked.timeline, event, ts_ns="ts_ns", lane="lane"))
        .sort("ts_ns", "event_id")
        .with_columns(device.fill_null("unknown").alias("device"), pl.col("device_type").fill_null(-1))
    )
    rows = innermost_at(linked, found.get_column("lane").to_numpy(), found.get_column("ts_ns").to_numpy())
    names = [
        "event_id",
        "ts_ns",
        *_DEVICE,
        "address",
        "size_bytes",
        "total_allocated_bytes",
        "total_reserved_bytes",
    ]
    return found.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("order"), *names, pl.Series("row", rows, dtype=pl.Int64)
    )


def paired(linked: LinkedTrace) -> pl.DataFrame:
    """One row per allocation, with its release; those from before the trace last. Kept with the linked trace.

    Columns: device, device_type, address, size_bytes, begin_ns (null: before the trace), end_ns (null: never),
    begin_order and end_order (of the instants), row and end_row (rows of `host_context`; null likewise), lost. An
    address that is allocated again without a release ends what it held at that moment; `lost` marks those.
    """
    return linked.derived(_paired)


def _paired(linked: LinkedTrace) -> pl.DataFrame:
    key = [*_DEVICE, "address"]
    changes = instants(linked).filter(pl.col("size_bytes") != 0)
    following = changes.sort(*key, "order").with_columns(
        *(
            pl.col(name).shift(-1).over(key).alias(f"next_{name}")
            for name in ("ts_ns", "row", "order", "size_bytes")
        ),
        (pl.col("size_bytes").shift(1).over(key) > 0).fill_null(value=False).alias("follows_allocation"),
    )
    lost = (pl.col("next_size_bytes") > 0).fill_null(value=False)
    allocated = following.filter(pl.col("size_bytes") > 0).select(
        *key,
        "size_bytes",
        pl.col("order").alias("begin_order"),
        pl.col("next_order").alias("end_order"),
        pl.col("ts_ns").alias("begin_ns"),
        pl.col("next_ts_ns").alias("end_ns"),
        "row",
        pl.when(~lost).then("next_row").alias("end_row"),
        lost.alias("lost"),
    )
    before = following.filter((pl.col("size_bytes") < 0) & ~pl.col("follows_allocation")).select(
        *key,
        -pl.col("size_bytes"),
        pl.lit(None, dtype=pl.Int64).alias("begin_order"),
        pl.col("order").alias("end_order"),
        pl.lit(None, dtype=pl.Int64).alias("begin_ns"),
        pl.col("ts_ns").alias("end_ns"),
        pl.lit(None, dtype=pl.Int64).alias("row"),
        pl.col("row").alias("end_row"),
        pl.lit(value=False).alias("lost"),
    )
    return pl.concat([allocated.sort("begin_order"), before.sort("end_order")])
