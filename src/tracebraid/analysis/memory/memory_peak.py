"""When is the most memory allocated, how much is it, and which op brought it there?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_rows import modules_of_rows, names_of_rows
from tracebraid.analysis.memory.blocks.blocks import memory_source
from tracebraid.analysis.memory.blocks.peaks import peaks
from tracebraid.analysis.memory.host.host_context import host_context
from tracebraid.model.answers import MEMORY_PEAK
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["memory_peak"]


def memory_peak(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The peak of each device's allocated memory: `model.answers.MEMORY_PEAK`.

    Args:
        linked: one rank.
        per_step: the peak of each step, what it found allocated included, instead of the trace's.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    found = peaks(linked, annotation, per_step)
    context, rows = host_context(linked), found.get_column("row").to_numpy()
    found = found.select(
        "step",
        "device",
        pl.lit(memory_source(linked).value).alias("source"),
        pl.col("ts_ns").alias("peak_ns"),
        pl.col("allocated_bytes").alias("peak_bytes"),
        "reserved_bytes",
        (pl.col("allocated_bytes") - pl.col("alive_bytes")).alias("before_trace_bytes"),
        pl.col("alive_bytes").alias("in_trace_bytes"),
        pl.col("alive_blocks").alias("allocations"),
        names_of_rows(linked, context.of_rows(context.op, rows)).cast(pl.String).alias("op"),
        modules_of_rows(linked, context.of_rows(context.module, rows)).cast(pl.String).alias("module"),
    )
    return answer(MEMORY_PEAK, found, linked, annotation)
