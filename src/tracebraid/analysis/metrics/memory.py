"""How much memory is allocated at most?"""

from __future__ import annotations

from functools import partial

import polars as pl

from tracebraid.analysis.memory.blocks.pairing import CPU
from tracebraid.analysis.memory.blocks.peaks import peaks, usage_by_step
from tracebraid.analysis.metrics.values.over_ranks import values_over_ranks
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, MetricOptions, OverRanks, Unit

__all__ = ["METRICS", "memory_of_devices"]

_SCHEMA = {"rank": pl.Int64, "device": pl.String, "allocated_bytes": pl.Int64, "reserved_bytes": pl.Int64}


def memory_of_devices(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """A row per device, those of accelerators where there is one: rank, device, allocated_bytes, reserved_bytes.

    From the allocations in the Kineto trace alone; without any there is no row.
    """
    if linked.timeline.tables["memory"].is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    reserved = usage_by_step(linked, annotation, False).group_by("device").agg(pl.col("reserved_bytes").max())
    found = (
        peaks(linked, annotation, False)
        .select("device", "allocated_bytes")
        .join(reserved, on="device", how="left", maintain_order="left")
        .with_columns(pl.lit(linked.rank).alias("rank"))
    )
    accelerators = found.filter(pl.col("device") != CPU)
    return (found if accelerators.is_empty() else accelerators).select(list(_SCHEMA)).cast(pl.Schema(_SCHEMA))


def _peak(ranks: LinkedRanks, _: MetricOptions, column: str) -> pl.DataFrame:
    found = ranks.of(memory_of_devices).group_by("rank").agg(pl.col(column).max().alias("value"))
    return values_over_ranks(found, OverRanks.MAX)


def _metric(name: str, column: str, formula: str) -> Metric:
    measure = partial(_peak, column=column)
    return Metric(name, Unit.BYTES, formula, OverRanks.MAX, measure, (memory_of_devices,), (Need.MEMORY,))


METRICS = (
    _metric(
        "memory_allocated_peak",
        "allocated_bytes",
        "`peak_bytes` of `memory_peak`, of the device of the rank that has the most; the host only without any other",
    ),
    _metric(
        "memory_reserved_peak",
        "reserved_bytes",
        "the most that the allocator has reserved at a moment, of that device that has the most",
    ),
)
