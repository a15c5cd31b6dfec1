"""Which kernels does each op launch, in which order, and how long does it take to launch the first?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device.launch_calls import launch_calls
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.kernels.sequences.kernel_sequences import MOST_NAMES, pattern_text
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import OP_KERNEL_SEQUENCES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["op_kernel_sequences"]

_KEY = ["step", "op_name", "op_category", "sequence"]


def op_kernel_sequences(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """What each op launched itself, in the order of the launches: `model.answers.OP_KERNEL_SEQUENCES`.

    Kernels belong to the innermost op around their launch call, on the call's thread.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were launched, instead of over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: count the ops of doubtful steps in the mean delays, too.
    """
    runs = _runs(linked, StepOptions(annotation, per_step, with_doubtful))
    if runs.is_empty():
        return OP_KERNEL_SEQUENCES.empty()
    counted = pl.col("in_means")
    found = (
        runs.group_by(_KEY)
        .agg(
            pl.col("names").first(),
            pl.col("length").first(),
            pl.len().alias("count"),
            pl.col("device_ns").sum(),
            (pl.col("call_ns") - pl.col("op_ns")).filter(counted).mean().alias("op_launch_delay_ns"),
            (pl.col("start_ns") - pl.col("call_ns")).filter(counted).mean().alias("runtime_delay_ns"),
        )
        .rename({"op_name": "op"})
    )
    patterns = [pattern_text(names) for names in found.get_column("names").to_list()]
    return (
        found.with_columns(pl.Series("pattern", patterns, dtype=pl.String))
        .sort(
            "device_ns",
            "op",
            "op_category",
            "pattern",
            "length",
            descending=[True, False, False, False, False],
        )
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(OP_KERNEL_SEQUENCES, frame, linked, annotation))
    )


def _runs(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """One row per op that launched something itself."""
    work = (
        device_work_of(linked, options)
        .with_columns(launch_calls(linked).get_column("call_ns"))
        .filter(pl.col("op_event").is_not_null())
        .sort(pl.coalesce("call_ns", "ts_ns"), "ts_ns", "event_id")
        .with_columns(pl.col("name").rank("dense").fill_null(0).cast(pl.String).alias("number"))
    )
    found = work.group_by("op_event", maintain_order=True).agg(
        pl.col("step", "op_name", "op_category", "in_means", "call_ns").first(),
        pl.col("ts_ns").first().alias("start_ns"),
        pl.col("number").str.join(",").alias("sequence"),
        pl.col("name").fill_null("").head(MOST_NAMES).alias("names"),
        pl.len().alias("length"),
        pl.col("dur_ns").sum().alias("device_ns"),
    )
    return found.with_columns(event_columns(linked.timeline, found.get_column("op_event"), op_ns="ts_ns"))
