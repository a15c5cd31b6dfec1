"""What is copied and filled on the device, from where to where, how fast, and who asked for it?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.copies.copied import copied
from tracebraid.analysis.step_rows import StepOptions, by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import COPIES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.units import NS_PER_S

__all__ = ["copies"]

_KEY = ["kind", "direction", "source", "target", "pinned", "api", "host_wait", "op"]
"""What makes two copies one row."""


def copies(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    per_step: bool = False,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Copies and fills by direction, memories, call and op, the most device time first: `model.answers.COPIES`.

    Bandwidth is the sum of the bytes by the sum of the durations of the copies whose size and duration are known and
    not 0; 1 GB/s is 10^9 bytes/s. `host_wait` is what the API documents, `awaited` counts what the trace shows.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: a row for each step in which they were launched, instead of one over all.
        with_doubtful: means and the like over all steps hold doubtful steps too.
    """
    events = copied(linked, annotation)
    if events.is_empty():
        return COPIES.empty()
    return (
        by_step(events, linked, StepOptions(annotation, per_step, with_doubtful))
        .drop("kind")
        .rename({"copy_kind": "kind"})
        .group_by("step", *_KEY)
        .agg(_sums())
        .with_columns(
            pl.when(pl.col("sized") > 0).then("bytes").alias("bytes"),
            pl.when(pl.col("timed_ns") > 0)
            .then(pl.col("timed_bytes") / pl.col("timed_ns") * NS_PER_S)
            .alias("bandwidth_bytes_per_s"),
        )
        .sort("total_ns", *_KEY, descending=[True, *([False] * len(_KEY))])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(COPIES, frame, linked, annotation))
    )


def _sums() -> list[pl.Expr]:
    size = pl.col("size_bytes")
    timed = pl.col("in_means") & pl.col("bandwidth").is_not_null()
    kineto = pl.col("kineto_bandwidth").filter("in_means")
    return [
        pl.len().alias("count"),
        (pl.col("returned_ns") >= pl.col("end_ns")).sum().alias("awaited"),
        size.is_not_null().sum().alias("sized"),
        size.sum().alias("bytes"),
        size.filter("in_means").mean().alias("mean_bytes"),
        pl.col("dur_ns").sum().alias("total_ns"),
        size.filter(timed).sum().alias("timed_bytes"),
        pl.col("dur_ns").filter(timed).sum().alias("timed_ns"),
        pl.col("bandwidth").filter("in_means").max().alias("max_bandwidth_bytes_per_s"),
        kineto.mean().alias("kineto_bandwidth_bytes_per_s"),
        kineto.max().alias("kineto_max_bandwidth_bytes_per_s"),
    ]
