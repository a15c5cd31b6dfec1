"""Which steps lack device events that they should have?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events, device_events_by_step
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.analysis.validity.doubts import DOUBTS
from tracebraid.analysis.validity.expected_work import expected_work
from tracebraid.model.answers import Doubt
from tracebraid.model.category import Role
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["missing_work"]

_MISSING_SHARE = 0.01
"""Share of a step's launches without work from which on it is doubtful: below, its figures hardly change. In sound
traces every launch has its work."""
_MOST = 0.5
"""Share from which on the step's device events are said to be missing."""

_SAME_OPS = 0.05
"""By which share the number of ops of steps that do the same may differ from one to the next larger."""
_FEWER = 0.8
"""Below this part of what the median of the steps that do the same has for an op, device events are missing."""
_STEPS = 3
"""Steps that do the same, at least, for their median to count."""
_NONE_OF = 10
"""A step without any device event lacks them where one that does the same has so many."""


def missing_work(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Steps with launches that have no work, and steps with far fewer device events than others with the same ops.

    The second finds what the first cannot: device events that were lost together with the calls.
    """
    of_launches = _of_launches(linked, annotation)
    of_counts = _of_counts(linked, annotation).join(of_launches, on="step", how="anti", nulls_equal=True)
    return pl.concat([of_launches, of_counts])


def _of_launches(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    calls = _without_cut_off(expected_work(linked, annotation), linked)
    lost = ~pl.col("has_work")
    most = pl.col("count") >= _MOST * pl.col("launches")
    # In no step are few launches, before and behind the steps: they count among those of the whole trace.
    of_all = pl.when(pl.col("step").is_null()).then(calls.height).otherwise("launches")
    earliest = (
        calls.filter(lost).sort("ts_ns", "event_id").unique("step", keep="first").select("step", "event_id")
    )
    return (
        calls.group_by("step")
        .agg(lost.sum().cast(pl.Int64).alias("count"), pl.len().alias("launches"))
        .join(earliest, on="step", nulls_equal=True)
        .filter(pl.col("count") >= _MISSING_SHARE * of_all)
        .select(
            "step",
            pl.when(most)
            .then(pl.lit(Doubt.DEVICE_EVENTS_MISSING.value))
            .otherwise(pl.lit(Doubt.LAUNCH_WITHOUT_WORK.value))
            .alias("doubt"),
            "count",
            "event_id",
            pl.lit(None, dtype=pl.Int64).alias("time_ns"),
        )
        .select(DOUBTS.names())
    )


def _without_cut_off(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Without the last launches of no step whose work still lay in the queue when the profiler stopped.

    The device went on to start earlier work after these calls; where their work is lost, it had none left.
    """
    last_launch = calls.filter("has_work").get_column("ts_ns").max()
    last_start = device_events(linked).get_column("ts_ns").max()
    cut_off = (
        pl.col("step").is_null()
        & ~pl.col("has_work")
        & (pl.col("ts_ns") > pl.lit(last_launch, dtype=pl.Int64))
        & (pl.col("ts_ns") < pl.lit(last_start, dtype=pl.Int64))
    )
    return calls.filter(~cut_off.fill_null(value=False))


def _of_counts(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    windows = step_windows(linked, annotation)
    if windows.height < 2 or not linked.timeline.has_device:
        return pl.DataFrame(schema=DOUBTS)
    ops = step_of_moments(linked.timeline.of_role(Role.OP).select("ts_ns"), windows)
    work = device_events_by_step(linked, annotation)
    # Work whose launch is not in the trace is of no step, but it is not missing: it counts where it runs.
    unlaunched = work.filter(pl.coalesce("call_event", "op_event").is_null())
    unlaunched = step_of_moments(unlaunched.select("ts_ns"), windows)
    counts = (
        windows.select("step")
        .unique(maintain_order=True)
        .join(ops.group_by("step").agg(pl.len().cast(pl.Int64).alias("ops")), on="step")
        .join(work.group_by("step").agg(pl.len().cast(pl.Int64).alias("work")), on="step", how="left")
        .join(
            unlaunched.group_by("step").agg(pl.len().cast(pl.Int64).alias("unlaunched")),
            on="step",
            how="left",
        )
        .with_columns(pl.col("work", "unlaunched").fill_null(0))
    )
    return _fewer_than_alike(counts)


def _fewer_than_alike(counts: pl.DataFrame) -> pl.DataFrame:
    """Steps with fewer device events for their ops than those with about as many ops.

    Args:
        counts: columns step, ops, work (device events that it launched), unlaunched (those that run in it, and whose
            launch is not in the trace).
    """
    differ = pl.col("ops") > (1 + _SAME_OPS) * pl.col("ops").shift(1)
    per_op = pl.col("work") / pl.col("ops")
    usual = (per_op.median().over("alike") * pl.col("ops")).round().cast(pl.Int64)
    found = pl.col("work") + pl.col("unlaunched")
    none, many = found == 0, pl.col("work").max().over("alike")
    expected = (
        pl.when(none & (many >= _NONE_OF))
        .then(many)
        .when((pl.len().over("alike") >= _STEPS) & (found < _FEWER * usual))
        .then(usual)
    )
    return (
        counts.sort("ops")
        .with_columns(differ.fill_null(value=False).cum_sum().alias("alike"))
        .with_columns(expected.alias("expected"))
        .filter(pl.col("expected").is_not_null())
        .select(
            "step",
            pl.lit(Doubt.DEVICE_EVENTS_MISSING.value).alias("doubt"),
            (pl.col("expected") - found).alias("count"),
            pl.lit(None, dtype=pl.Int64).alias("event_id"),
            pl.lit(None, dtype=pl.Int64).alias("time_ns"),
        )
    )
