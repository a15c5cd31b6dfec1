"""The annotations that the profiler wrote for the device."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.statistics import max_of, mean_of, min_of
from tracebraid.analysis.step_rows import StepOptions, by_start
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_ranges"]

_EXTERNAL_ID = "External id"


def device_ranges(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """Ranges of the device by step and name: device_ranges (how many), device_range_ns and its mean, min and max.

    The step of a range is that in which the annotation of the host with its external id started; without such, that
    in which the range itself starts.

    Args:
        linked: one rank.
        options: see `StepOptions`.
    """
    ranges = linked.timeline.of_role(Role.DEVICE_ANNOTATION).select(
        "event_id", as_text("name").fill_null(""), "ts_ns", "dur_ns"
    )
    if not ranges.is_empty():
        ranges = _at_host_start(linked, ranges)
    ranges = by_start(ranges, linked, options)
    duration = pl.col("dur_ns")
    return ranges.group_by("step", "name").agg(
        pl.len().cast(pl.Int64).alias("device_ranges"),
        duration.sum().alias("device_range_ns"),
        mean_of(duration.filter("in_means"), "device_range_mean_ns"),
        min_of(duration, "device_range_min_ns"),
        max_of(duration, "device_range_max_ns"),
    )


def _at_host_start(linked: LinkedTrace, ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges, `ts_ns` replaced by the start of the host's annotation where that is known."""
    timeline = linked.timeline
    ids = timeline.tables["extra_args"].filter(as_text("key") == _EXTERNAL_ID)
    ids = ids.select("event_id", external_id=pl.col("value").cast(pl.Int64, strict=False)).drop_nulls()
    host = (
        timeline.of_role(Role.ANNOTATION)
        .join(timeline.host_ops.select("event_id", "external_id").drop_nulls(), on="event_id")
        .select("external_id", as_text("name"), start_ns="ts_ns")
        .unique(["external_id", "name"], keep="none")
    )
    return (
        ranges.join(ids.unique("event_id", keep="first"), on="event_id", how="left", maintain_order="left")
        .join(host, on=["external_id", "name"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("start_ns", "ts_ns").alias("ts_ns"))
    )
