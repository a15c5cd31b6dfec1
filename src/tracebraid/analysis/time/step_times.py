"""How long did each step take, what filled it, and was it a warm-up step?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.first_time_work import first_time_work
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.analysis.time.warm_up import warm_up
from tracebraid.model.answers import STEP_TIMES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["step_times"]

_PARTS = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")


def step_times(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """A row for each occurrence of a step and device, in the order of starts: `model.answers.STEP_TIMES`.

    compute + exposed communication + exposed memory + idle = span, to the nanosecond, as in `breakdown`. Which steps
    are warm-up is said by `warm_up`. Steps may overlap, as those of two threads do: each is measured by itself.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    return linked.derived(_step_times, annotation)


def _step_times(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    windows = step_windows(linked, annotation)
    parts = breakdown(linked, annotation).filter(pl.col("step").is_not_null())
    if parts.is_empty():
        return STEP_TIMES.empty()
    span = pl.col("end_ns") - pl.col("start_ns")
    kinds = first_time_work(linked, annotation)
    flags = pl.DataFrame({kind.value: found for kind, found in kinds.items()})
    names = [pl.when(kind.value).then(pl.lit(kind.value)) for kind in kinds]
    evidence = pl.concat_str(names, separator=",", ignore_nulls=True)
    of_windows = windows.select(
        (pl.col("start_ns").shift(-1) - pl.col("end_ns")).alias("gap_ns"),
        pl.Series("warmup", warm_up(windows.select(span).to_series().to_numpy())),
        flags.select(pl.when(evidence != "").then(evidence).alias("first_time_work")).to_series(),
    ).with_row_index("occurrence")
    # The rows of each device are the windows, in their order.
    return (
        parts.select("step", "device", "start_ns", "span_ns", *_PARTS)
        .with_columns(pl.int_range(pl.len()).cast(pl.UInt32).over("device").alias("occurrence"))
        .join(of_windows, on="occurrence", how="left", maintain_order="left")
        .sort("occurrence", maintain_order=True)
        .pipe(lambda frame: answer(STEP_TIMES, frame, linked, annotation))
    )
