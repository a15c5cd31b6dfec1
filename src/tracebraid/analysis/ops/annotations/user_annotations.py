"""How much host and device time lies in each annotation?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.ops.annotations.annotation_tree import annotation_tree
from tracebraid.analysis.ops.annotations.device_ranges import device_ranges
from tracebraid.analysis.ops.busy import busy_times
from tracebraid.analysis.ops.launch_rows import host_times, launched
from tracebraid.analysis.ops.op_times import launched_by_rows
from tracebraid.analysis.statistics import extremes, spread
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import USER_ANNOTATIONS
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_ancestors
from tracebraid.model.step import PROFILER_STEP

__all__ = ["user_annotations"]

_Ints = NDArray[np.int64]
_COUNTS = ["count", "host_self_ns", "host_total_ns", "kernels", "device_self_ns", "kernels_total"]
_COUNTS += ["device_total_ns", "device_busy_ns", "device_ranges"]


def user_annotations(
    linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP, with_doubtful: bool = False
) -> pl.DataFrame:
    """Annotations by name, the most device time first: `model.answers.USER_ANNOTATIONS`.

    What a thread of autograd launches lies in the annotation that is open meanwhile on the thread of the forward pass.
    Host time is that of the annotation's own thread. An annotation inside another of its name counts in no total
    again. With S the device events launched in a row's annotations: total = the sum of their durations, busy = |union
    of their intervals| on each device, added over devices. `device_range*` are the ranges that the profiler wrote for
    the device, from the first kernel to the last: in them, the device may be idle, or busy with other work.

    Args:
        linked: one rank.
        per_step: rows for each step in which the annotations started, instead of over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: what lies in doubtful steps counts in means and percentiles, too.
    """
    options = StepOptions(annotation, per_step, with_doubtful)
    rows = _rows(linked, options)
    found = (
        rows.group_by("step", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("host_self_ns").sum(),
            pl.col("host_ns").sum().alias("host_total_ns"),
            *spread("host_ns", "host"),
            *extremes("host_ns", "host"),
            pl.col("kernels").sum(),
            pl.col("device_self_ns").sum(),
            pl.col("kernels_total").filter("outermost").sum(),
            pl.col("device_total_ns").filter("outermost").sum(),
        )
        .join(_busy(linked, rows), on=["step", "name"], how="left", nulls_equal=True)
        .join(
            device_ranges(linked, options),
            on=["step", "name"],
            how="full",
            coalesce=True,
            nulls_equal=True,
        )
        .with_columns(pl.col(*_COUNTS).fill_null(0))
    )
    if found.is_empty():
        return USER_ANNOTATIONS.empty()
    return (
        found.sort("device_total_ns", "host_total_ns", "name", descending=[True, True, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(USER_ANNOTATIONS, frame, linked, annotation))
    )


def _rows(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """One row per annotation: row, step, name, and its times; `outermost`: in no other of its `key`."""
    of = annotation_tree(linked)
    events = launched(linked).filter(pl.col("row") >= 0)
    kernels, device = launched_by_rows(events, events.get_column("row").to_numpy(), of.tree)
    directly = of.tree.nearest(of.is_annotation)
    own = linked.host_tree.get_column("op_exclusive_ns").fill_null(0).to_numpy()
    found = (
        host_times(linked, options)
        .with_columns(
            host_names(linked).select(as_text("name").fill_null("")).to_series(),
            pl.Series("row", np.arange(len(directly), dtype=np.int64)),
            pl.Series("host_self_ns", _by_row(of.on_thread.nearest(of.is_annotation), own)),
            pl.Series("kernels", _by_row(directly, kernels)),
            pl.Series("device_self_ns", _by_row(directly, device)),
            pl.Series("kernels_total", of.tree.sums(kernels)),
            pl.Series("device_total_ns", of.tree.sums(device)),
        )
        .filter(pl.Series(of.is_annotation))
    )
    key = found.select(pl.struct("step", "name").rank("dense").cast(pl.Int64).alias("key")).to_series()
    outermost = pl.Series(of.tree.outermost(found.get_column("row").to_numpy(), key.to_numpy()))
    return found.with_columns(
        key, outermost.alias("outermost"), pl.when(outermost).then("inclusive_ns").alias("host_ns")
    )


def _by_row(rows: _Ints, amounts: _Ints) -> _Ints:
    """For each row the sum of the amounts that belong to it; row -1 takes none."""
    found = np.zeros(len(rows) + 1, dtype=np.int64)
    np.add.at(found, rows, amounts)
    return found[:-1]


def _busy(linked: LinkedTrace, rows: pl.DataFrame) -> pl.DataFrame:
    """`device_busy_ns` by step and name."""
    of = annotation_tree(linked)
    wanted = np.zeros(len(of.is_annotation), dtype=np.bool_)
    wanted[rows.filter("outermost").get_column("row").to_numpy()] = True
    parent = np.where(of.tree.enclosing == np.arange(len(wanted)), -1, of.tree.enclosing)
    outer = nearest_ancestors(parent, wanted)
    events = launched(linked).filter(pl.col("row") >= 0)
    event = np.arange(events.height)
    holder = of.tree.nearest(wanted)[events.get_column("row").to_numpy()]
    numbers, annotations = [event[:0]], [holder[:0]]
    while (inside := holder >= 0).any():
        event, holder = event[inside], holder[inside]
        numbers.append(event)
        annotations.append(holder)
        holder = outer[holder]
    work = events.select("device", "ts_ns", "dur_ns")[np.concatenate(numbers)].with_columns(
        pl.Series("annotation", np.concatenate(annotations))
    )
    keys = rows.select(pl.col("row").alias("annotation"), "key")
    busy = busy_times(work.join(keys, on="annotation").drop("annotation"), "key")
    return busy.join(rows.select("key", "step", "name").unique("key"), on="key").drop("key")
