"""What a report draws of memory: what is alive over time, by category."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.analysis.memory.allocations import allocations
from tracebraid.analysis.memory.memory_timeline import memory_timeline
from tracebraid.api.reporting.view_options import ViewOptions
from tracebraid.model.answers.memory.memory_codes import MemoryCategory
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.sampling import sampled

__all__ = ["MEMORY_BY_CATEGORY", "memory_view"]

MEMORY_BY_CATEGORY = "memory_by_category"
"""Its name in `RunResults.views`: rank, device, ts_ns, category (a code of `MemoryCategory`), bytes."""

_MOMENTS = 500
"""Moments of a device: those with the most memory of so many equal spans of time."""
_KEYS = ["rank", "device"]


def memory_view(linked: LinkedTrace, options: ViewOptions) -> Mapping[str, pl.DataFrame]:
    """The memory of each device by category, at the moments with the most of equal spans of time.

    What is allocated beyond the allocations of the trace is from before it.

    Args:
        linked: one rank.
        options: what marks a step.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    timeline = memory_timeline(linked, options.annotation).select(*_KEYS, "ts_ns", "allocated_bytes")
    blocks = allocations(linked, options.annotation)
    found = [
        _of_device(moments.sort("ts_ns", maintain_order=True), blocks)
        for moments in timeline.partition_by(_KEYS, maintain_order=True)
    ]
    return {MEMORY_BY_CATEGORY: pl.concat(found)} if found else {}


def _of_device(moments: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """A row for each moment and category of a device."""
    at = sampled(moments, "allocated_bytes", _MOMENTS).unique("ts_ns", keep="last", maintain_order=True)
    of_device = blocks.filter(pl.col("device") == at.item(0, "device"))
    changes = _changes(of_device, moments.item(0, "ts_ns"))
    sums = [_alive(at, changes, category) for category in MemoryCategory]
    wide = at.with_columns(sums)
    names = [category.value for category in MemoryCategory]
    rest = pl.col("allocated_bytes") - pl.sum_horizontal(names)
    before = MemoryCategory.BEFORE_TRACE.value
    return (
        wide.with_columns((pl.col(before) + rest.clip(0)).alias(before))
        .unpivot(names, index=[*_KEYS, "ts_ns"], variable_name="category", value_name="bytes")
        .filter(pl.col("bytes").max().over("category") > 0)
    )


def _changes(blocks: pl.DataFrame, start_ns: int) -> pl.DataFrame:
    """Bytes that each category gets (+) and releases (-), in the order of time."""
    gets = blocks.select(
        pl.col("allocated_ns").fill_null(start_ns).alias("ts_ns"),
        "category",
        pl.col("size_bytes").alias("bytes"),
    )
    releases = blocks.filter(pl.col("released_ns").is_not_null()).select(
        pl.col("released_ns").alias("ts_ns"), "category", (-pl.col("size_bytes")).alias("bytes")
    )
    return pl.concat([gets, releases]).sort("ts_ns", maintain_order=True)


def _alive(at: pl.DataFrame, changes: pl.DataFrame, category: MemoryCategory) -> pl.Series:
    """What of a category is alive at each moment, in bytes."""
    own = changes.filter(pl.col("category") == category.value)
    running = own.select("ts_ns", pl.col("bytes").cum_sum().alias("alive"))
    found = at.select("ts_ns").join_asof(running, on="ts_ns", strategy="backward")
    return found.get_column("alive").fill_null(0).alias(category.value)
