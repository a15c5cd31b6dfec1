"""The calls that take memory from a device or give it back."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.host.host_rows import modules_of_rows, names_of_rows
from tracebraid.analysis.memory.blocks.pairing import CPU, instants
from tracebraid.analysis.memory.host.host_context import host_context
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers import AllocatorCall
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_calls"]


def device_calls(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per call, in the order of time; kept.

    Columns: event_id, lane, ts_ns, dur_ns, call, kind, op, module, op_row (of `host_context`; -1: none), device (of
    the thread's next allocation or release; null: none follows), step, is_steady (in a step after the first).
    """
    return linked.derived(_device_calls, annotation)


def _device_calls(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    name = pl.col("call")
    kind = (
        pl.when(call_does(name, CallAction.ALLOCATE_ON_DEVICE))
        .then(pl.lit(AllocatorCall.ALLOCATION.value))
        .when(call_does(name, CallAction.RELEASE_ON_DEVICE))
        .then(pl.lit(AllocatorCall.RELEASE.value))
    )
    calls = linked.timeline.of_role(Role.CALL)
    known = calls.select(as_text("name").alias("call")).unique().with_columns(kind.alias("kind"))
    known = known.filter(pl.col("kind").is_not_null())
    found = (
        calls.select("event_id", "lane", "ts_ns", "dur_ns", as_text("name").alias("call"))
        .join(known, on="call")
        .sort("ts_ns", "event_id")
    )
    context = host_context(linked)
    rows = context.rows(found.get_column("event_id").to_numpy())
    op = context.of_rows(context.op, rows)
    found = found.with_columns(
        pl.Series("op_row", op, dtype=pl.Int64),
        names_of_rows(linked, op).cast(pl.String).alias("op"),
        modules_of_rows(linked, context.of_rows(context.module, rows)).cast(pl.String).alias("module"),
    )
    windows = step_windows(linked, annotation)
    first_end = windows.get_column("end_ns").head(1).to_numpy()
    steady = found.get_column("ts_ns").to_numpy() >= (
        first_end[0] if len(first_end) else np.iinfo(np.int64).max
    )
    by_step = step_of_moments(_with_device(found, linked), windows)
    return by_step.with_columns(
        (pl.Series(steady, dtype=pl.Boolean) & pl.col("step").is_not_null()).alias("is_steady")
    )


def _with_device(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """No call names its device: what the thread allocates or releases next does."""
    changes = instants(linked).filter(pl.col("device") != CPU).select("event_id", "ts_ns", "device")
    lanes = event_columns(linked.timeline, changes.get_column("event_id"), lane="lane")
    of_lane = changes.with_columns(lanes).sort("ts_ns", "event_id").drop("event_id")
    return calls.join_asof(of_lane, on="ts_ns", by="lane", strategy="forward", check_sortedness=False)
