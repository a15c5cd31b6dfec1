"""What is kept of a rank to compare it: its steps, and by step what each op, kernel and part of it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import doubtful_steps
from tracebraid.analysis.compare.profiles.op_positions import op_positions
from tracebraid.analysis.compare.profiles.settings import settings_of
from tracebraid.analysis.compare.profiles.step_parts import main_device, step_parts
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.host.host_rows import host_rows
from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.time.step_windows import in_windows, step_windows, windows_of
from tracebraid.analysis.time.warm_up import warm_up
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.answers import DiffSetting
from tracebraid.model.device_kind import WAIT
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["RankProfile", "rank_profile"]

_Ints = NDArray[np.int64]

_NO_POSITION = -1


@dataclass(frozen=True, eq=False)
class RankProfile:
    """What is kept of a rank; tables whose rows are few: none has a row for each event.

    Args:
        rank: the rank.
        settings: what it was recorded with.
        has_steps: whether the annotation is there; if not, the whole trace is a single window.
        has_device: whether any work ran on a device.
        windows: the steps in their order: window, step, span_ns, warmup, doubtful.
        positions: where ops are called, see `op_positions`.
        ops: by position (a row of `positions`) and window: count, host_ns, kernels, device_ns.
        kernels: by position (-1: launched by no op), window, kernel and kind: count, ns.
        parts: by position and window, see `step_parts`.
    """

    rank: int
    settings: Mapping[DiffSetting, str | None]
    has_steps: bool
    has_device: bool
    windows: pl.DataFrame
    positions: pl.DataFrame
    ops: pl.DataFrame
    kernels: pl.DataFrame
    parts: pl.DataFrame


def rank_profile(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> RankProfile:
    """What is compared of a rank.

    An op counts in the step in which it starts, a kernel in that of its launch.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    steps = step_windows(linked, annotation)
    has_steps = not steps.is_empty()
    windows = steps if has_steps else _whole(linked)
    calls = windows_of(linked, annotation, has_steps).with_row_index("window").cast({"window": pl.Int64})
    positions, of_row = op_positions(linked, annotation)
    kernels = _kernels(linked, of_row, calls)
    parts = step_parts(linked, annotation, windows, has_steps)
    row = parts.get_column("row").fill_null(-1).to_numpy()
    parts = parts.with_columns(pl.Series("position", np.r_[of_row, _NO_POSITION][row], dtype=pl.Int64)).drop(
        "row"
    )
    key = ["position", "window", "part", "cause", "host_activity"]
    span = windows.get_column("end_ns") - windows.get_column("start_ns")
    return RankProfile(
        linked.rank,
        settings_of(linked, span, steps),
        has_steps,
        linked.timeline.has_device,
        pl.DataFrame(
            {
                "window": np.arange(windows.height),
                "step": windows.get_column("step"),
                "span_ns": span,
                "warmup": warm_up(span.to_numpy()),
                "doubtful": windows.get_column("step").is_in(
                    doubtful_steps(linked, annotation).implode(), nulls_equal=True
                ),
            }
        ),
        positions,
        _ops(linked, of_row, calls, kernels),
        kernels,
        parts.group_by(key, maintain_order=True).agg(pl.col("ns").sum()),
    )


def _whole(linked: LinkedTrace) -> pl.DataFrame:
    """One window from the first work of the main device to its last."""
    device = main_device(linked)
    work = work_events(linked).filter(pl.col("device") == device) if device is not None else None
    start, end = 0, 0
    if work is not None:
        ends = work.get_column("ts_ns").to_numpy() + work.get_column("dur_ns").to_numpy()
        start, end = int(work.get_column("ts_ns").to_numpy().min()), int(ends.max())
    schema = {"step": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame([(None, start, end)], schema=schema, orient="row")


def _kernels(linked: LinkedTrace, of_row: _Ints, calls: pl.DataFrame) -> pl.DataFrame:
    events = device_events(linked).filter(pl.col("kind") != WAIT)
    launch = events.select(pl.coalesce("call_event", "op_event")).to_series()
    (moment,) = event_columns(linked.timeline, launch, moment="ts_ns")
    rows = host_rows(linked).rows(events.get_column("op_event").fill_null(-1).to_numpy())
    found = events.select("name", "kind", "ts_ns", "dur_ns").with_columns(
        moment, pl.Series("position", np.r_[of_row, _NO_POSITION][rows], dtype=pl.Int64)
    )
    found = found.with_columns(pl.coalesce("moment", "ts_ns").alias("moment"))
    return (
        in_windows(found, "moment", calls.select("window", "start_ns", "end_ns"))
        .group_by("position", "window", pl.col("name").alias("kernel"), "kind", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("dur_ns").sum().alias("ns"))
    )


def _ops(
    linked: LinkedTrace,
    of_row: _Ints,
    calls: pl.DataFrame,
    kernels: pl.DataFrame,
) -> pl.DataFrame:
    of_host = pl.DataFrame(
        {
            "position": of_row,
            "moment": host_names(linked).get_column("ts_ns"),
            "own": linked.host_tree.get_column("op_exclusive_ns"),
        }
    ).filter(pl.col("position") >= 0)
    host = (
        in_windows(of_host, "moment", calls.select("window", "start_ns", "end_ns"))
        .group_by("position", "window", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("own").sum().alias("host_ns"))
    )
    launched = kernels.group_by("position", "window", maintain_order=True).agg(
        pl.col("count").sum().alias("kernels"), pl.col("ns").sum().alias("device_ns")
    )
    return (
        host.join(
            launched.filter(pl.col("position") >= 0), on=["position", "window"], how="full", coalesce=True
        )
        .with_columns(pl.col("count", "host_ns", "kernels", "device_ns").fill_null(0))
        .sort("position", "window")
    )
