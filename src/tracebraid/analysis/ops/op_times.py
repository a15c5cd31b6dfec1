"""Op, thread and step in which each device event was launched."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import StepOptions, answer, by_launch, by_start
from tracebraid.analysis.device import device_events, rows_of_events
from tracebraid.analysis.host.host_trees import host_names, host_ops, host_parents
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, analysis
from tracebraid.model.answers.ops import PYTHON_FRAMES
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree
from tracebraid.model.user_frame import is_user_frame, without_address


def launched(linked: LinkedTrace, options: StepOptions | None = None) -> pl.DataFrame:
    """`device_events` with `row`; with options `step` and `in_means` too, by the step of the launch.

    The row of `host_tree` is that of the launching call, else of the op that launched the event; -1: no launch is
    known.
    """
    events = device_events(linked)
    if options is not None:
        events = by_launch(events, linked, options)
    events = events.with_columns(pl.coalesce("call_event", "op_event").alias("launcher"))
    rows = rows_of_events(linked.host_tree.get_column("event_id"), events.get_column("launcher"))
    return events.with_columns(rows.fill_null(-1))


def host_times(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The host events in the order of `host_tree`: ts_ns, inclusive_ns, exclusive_ns; step and in_means by starts."""
    names = host_names(linked).select("ts_ns")
    times = names.with_columns(linked.host_tree.select("inclusive_ns", "exclusive_ns").get_columns())
    return by_start(times, linked, options)


_Ints = NDArray[np.int64]


def op_times(linked: LinkedTrace) -> pl.DataFrame:
    """One row per op or annotation, in the order of `host_tree`.

    Columns: row (in `host_tree`), event_id, name, category (categoricals), ts_ns, inclusive_ns, op_exclusive_ns;
    kernels and device_self_ns: device events that it launched itself, and their duration; device_total_ns: with those
    of the ops inside it.
    """
    return linked.derived(_op_times)


def _op_times(linked: LinkedTrace) -> pl.DataFrame:
    tree = host_ops(linked)
    launched = device_events(linked).filter(pl.col("op_event").is_not_null())
    kernels, device = launched_by_rows(launched, tree.rows(launched.get_column("op_event").to_numpy()), tree)
    return (
        host_names(linked)
        .select("event_id", "name", "category", "ts_ns")
        .with_row_index("row")
        .with_columns(
            pl.col("row").cast(pl.Int64),
            linked.host_tree.get_column("inclusive_ns"),
            linked.host_tree.get_column("op_exclusive_ns"),
            pl.Series("kernels", kernels),
            pl.Series("device_self_ns", device),
            pl.Series("device_total_ns", tree.sums(device)),
        )
        .filter(pl.col("op_exclusive_ns").is_not_null())
    )


def launched_by_rows(launched: pl.DataFrame, rows: _Ints, tree: OpTree) -> tuple[_Ints, _Ints]:
    """For each row of a tree the number of device events that it launched, and the sum of their durations."""
    count, duration = (np.zeros(len(tree.event_id), dtype=np.int64) for _ in range(2))
    np.add.at(count, rows, 1)
    np.add.at(duration, rows, launched.get_column("dur_ns").to_numpy())
    return count, duration


@analysis(
    PYTHON_FRAMES,
    Family.OPS,
    needs=(Need.STACKS,),
    uses=(Need.DEVICE_WORK,),
    shown="name host_self_ns host_total_ns device_total_ns device_self_ns calls kernels",
    formula=(
        "host self: time in the function and in no Python function inside it. Device times: durations of "
        "what was launched there."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("host_self_ns", "device_self_ns")),
)
def python_frames(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """Which Python functions take the time?

    Python functions by name, the most device time first.

    Every host event's own time, and every device event's duration, counts in exactly one row's self time: that of the
    innermost Python function around the event or its launch. A function inside itself counts in no total again. The
    threads of autograd run no Python functions: their launches are outside functions.

    Args:
        linked: one rank.
        per_step: rows for each step in which the functions were called, instead of over all.
    """
    if linked.timeline.of_role(Role.PYTHON).is_empty():
        return PYTHON_FRAMES.empty()
    options = StepOptions(per_step)
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
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(PYTHON_FRAMES, frame, linked))
    )


def _host(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The rows of `host_tree` with the name of the function that each is; null: it is none."""
    names = host_names(linked).select("name", "category")
    is_frame = as_text("category").is_in(categories_of(Role.PYTHON)).fill_null(value=False)
    names = names.with_columns(is_frame.alias("is_frame"))
    unique = names.filter("is_frame").select("name").unique()
    short = unique.with_columns(without_address(as_text("name")).alias("short"))
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
