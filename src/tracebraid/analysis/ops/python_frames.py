"""Which Python functions take the time, and launch the device's?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_trees import host_names, host_parents
from tracebraid.analysis.ops.launch_rows import host_times, launched
from tracebraid.analysis.ops.op_times import launched_by_rows
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import PYTHON_FRAMES
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.user_frame import is_user_frame

__all__ = ["python_frames"]

_ADDRESS = r"( object)? at 0x[0-9a-fA-F]+"
"""What tells the objects of one type apart in the name of a built-in method."""


def python_frames(
    linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """Python functions by name, the most device time first: `model.answers.PYTHON_FRAMES`.

    Every host event's own time, and every device event's duration, counts in exactly one row's self time: that of the
    innermost Python function around the event or its launch. A function inside itself counts in no total again. The
    threads of autograd run no Python functions: what they launch is in none.

    Args:
        linked: one rank.
        per_step: rows for each step in which the functions were called, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    if linked.timeline.of_role(Role.PYTHON).is_empty():
        return PYTHON_FRAMES.empty()
    options = StepOptions(annotation, per_step)
    host = _host(linked, options)
    calls = host.filter("is_frame")
    key = calls.select(pl.struct("step", "name").rank("dense").cast(pl.Int64)).to_series().to_numpy()
    outermost = pl.Series(host_parents(linked).outermost(calls.get_column("row").to_numpy(), key))
    totals = (
        calls.with_columns(outermost.alias("outermost"))
        .group_by("step", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("inclusive_ns").filter("outermost").sum().alias("host_total_ns"),
            pl.col("device_ns").filter("outermost").sum().alias("device_total_ns"),
        )
    )
    found = _self(linked, host, options)
    for_all = ["host_self_ns", "kernels", "device_self_ns"]
    return (
        found.join(totals, on=["step", "name"], how="full", coalesce=True, nulls_equal=True)
        .with_columns(pl.col(*for_all, "calls").fill_null(0))
        .with_columns(
            pl.when(pl.col("name").is_null())
            .then(f"{of}_self_ns")
            .otherwise(pl.col(f"{of}_total_ns").fill_null(0))
            .alias(f"{of}_total_ns")
            for of in ("host", "device")
        )
        .with_columns(is_user_frame(pl.col("name")).fill_null(value=False).alias("is_user"))
        .sort("device_self_ns", "host_self_ns", "name", descending=[True, True, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(PYTHON_FRAMES, frame, linked, annotation))
    )


def _host(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The rows of `host_tree` with the name of the function that each is; null: it is none."""
    names = host_names(linked).select("name", "category")
    is_frame = as_text("category").is_in(categories_of(Role.PYTHON)).fill_null(value=False)
    names = names.with_columns(is_frame.alias("is_frame"))
    unique = names.filter("is_frame").select("name").unique()
    short = unique.with_columns(as_text("name").str.replace_all(_ADDRESS, "").alias("short"))
    text = names.join(short, on="name", how="left", maintain_order="left", nulls_equal=True)
    tree = host_parents(linked)
    events = launched(linked).filter(pl.col("row") >= 0)
    _, device = launched_by_rows(events, events.get_column("row").to_numpy(), tree)
    return host_times(linked, options).with_columns(
        text.get_column("is_frame"),
        text.select(pl.when("is_frame").then(pl.col("short").fill_null("")).alias("name")).to_series(),
        pl.Series("row", np.arange(names.height, dtype=np.int64)),
        pl.Series("device_ns", tree.sums(device)),
    )


def _self(linked: LinkedTrace, host: pl.DataFrame, options: StepOptions) -> pl.DataFrame:
    """Self times by step and the name of the innermost function; null: in none."""
    frames = host.get_column("is_frame").to_numpy()
    nearest = np.r_[host_parents(linked).nearest(frames), -1]
    names = pl.concat([host.get_column("name"), pl.Series("name", [None], dtype=pl.String)])

    def of(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
        within = nearest[rows]
        return names.gather(np.where(within < 0, len(frames), within)).alias("name")

    device = launched(linked, options)
    of_host = (
        host.with_columns(of(host.get_column("row").to_numpy()))
        .group_by("step", "name")
        .agg(pl.col("exclusive_ns").sum().alias("host_self_ns"))
    )
    of_device = (
        device.select("step", "dur_ns", of(device.get_column("row").to_numpy()))
        .group_by("step", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("kernels"),
            pl.col("dur_ns").sum().alias("device_self_ns"),
        )
    )
    return of_host.join(of_device, on=["step", "name"], how="full", coalesce=True, nulls_equal=True)
