"""Which ops take the most time, on the device and on the host, and with which shapes?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device_events import device_events
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_of_moments, step_windows
from tracebraid.model.answers import OPS
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree, op_tree
from tracebraid.model.step import PROFILER_STEP

__all__ = ["ops"]

_KEY = ["name", "category", "input_dims"]
"""What makes two ops one row."""


def ops(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Host ops by name and input shapes, the most device time first: `model.answers.OPS`.

    Host self time is the op's time less that of the ops directly inside it; runtime calls inside it are its
    own. Device self time is the duration of what the op launched itself; the total adds what ops inside it
    launched. Durations are summed: work on two streams at once counts twice. An op inside another of its row (the
    same name, category and shapes: recursion) counts in no total again.

    Args:
        linked: one rank.
        per_step: a row for each step in which the ops started, instead of one over all.
        annotation: what marks a step, see `steps`.
    """
    found = _ops(linked)
    if found.is_empty():
        return OPS.empty()
    if per_step:
        found = step_of_moments(found, step_windows(linked, annotation))
    else:
        found = found.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    return (
        found.group_by("step", *_KEY)
        .agg(
            pl.len().alias("count"),
            pl.col("op_exclusive_ns").sum().alias("host_self_ns"),
            pl.col("inclusive_ns").filter("outermost").sum().alias("host_total_ns"),
            pl.col("kernels").sum(),
            pl.col("device_self_ns").sum(),
            pl.col("device_total_ns").filter("outermost").sum(),
        )
        .sort(
            "device_self_ns",
            "host_self_ns",
            "name",
            "category",
            "input_dims",
            descending=[True, True, False, False, False],
        )
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(OPS, frame, linked, annotation))
    )


def _ops(linked: LinkedTrace) -> pl.DataFrame:
    """One row per op: its times, and the device time that it and the ops inside it launched."""
    timeline = linked.timeline
    launched = device_events(linked).filter(pl.col("op_event").is_not_null())
    own = launched.group_by("op_event").agg(
        pl.len().alias("kernels"), pl.col("dur_ns").sum().alias("device_self_ns")
    )
    walk = op_tree(linked.host_tree)
    tree = linked.host_tree.filter(pl.col("op_exclusive_ns").is_not_null())
    text = ("name", "category")
    found = (
        tree.select("event_id", "inclusive_ns", "op_exclusive_ns")
        .join(
            timeline.events.select("event_id", "ts_ns", *(as_text(c) for c in text)),
            on="event_id",
        )
        .join(
            timeline.host_ops.select("event_id", as_text("input_dims")),
            on="event_id",
            how="left",
        )
        .join(own.rename({"op_event": "event_id"}), on="event_id", how="left")
        .join(_with_ops_inside(own, walk).rename({"op_event": "event_id"}), on="event_id", how="left")
        .with_columns(pl.col("kernels", "device_self_ns", "device_total_ns").fill_null(0))
    )
    return found.with_columns(_outermost(found, walk))


def _with_ops_inside(own: pl.DataFrame, walk: OpTree) -> pl.DataFrame:
    """Device time of each op with that of all ops inside it."""
    amounts = np.zeros(len(walk.event_id), dtype=np.int64)
    amounts[walk.rows(own.get_column("op_event").to_numpy())] = own.get_column("device_self_ns").to_numpy()
    return pl.DataFrame({"op_event": walk.event_id, "device_total_ns": walk.sums(amounts)})


def _outermost(found: pl.DataFrame, walk: OpTree) -> pl.Series:
    """Whether each op is inside no other that makes one row with it."""
    keys = found.select(_KEY).unique(maintain_order=True).with_row_index("key")
    numbers = found.join(keys, on=_KEY, how="left", nulls_equal=True, maintain_order="left").get_column("key")
    rows = walk.rows(found.get_column("event_id").to_numpy())
    return pl.Series("outermost", walk.outermost(rows, numbers.to_numpy().astype(np.int64)))
