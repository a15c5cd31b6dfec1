"""Which activations are held longest, and what would recomputing them save?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.blocks.blocks import blocks
from tracebraid.analysis.step_rows import NO_STEP
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import ACTIVATIONS, MemoryCategory
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.units import NS_PER_S

__all__ = ["activations"]

_KEY = ["device", "op", "module", "shape", "dtype", "size_bytes"]


def activations(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Activations by op, module, shape and size, those with the most bytes x time first: `model.answers.ACTIVATIONS`.

    Bytes x time of an activation is its size times the time from its allocation to its release, or to the trace's end.
    Recomputing saves the part between its last use in forward and its first in backward, which the Execution
    Trace tells.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were allocated, instead of over all.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    found = blocks(linked, annotation).filter(pl.col("category") == MemoryCategory.ACTIVATIONS.value)
    if not per_step:
        found = found.with_columns(NO_STEP)
    last = linked.timeline.span_ns
    end = pl.col("end_ns").fill_null(last[1] if last else 0)
    lifetime = pl.max_horizontal(end - pl.col("begin_ns"), 0)
    idle = (pl.col("first_backward_ns") - pl.col("last_forward_ns")).clip(lower_bound=0)
    size = pl.col("size_bytes").cast(pl.Float64)
    in_seconds = found.with_columns(
        lifetime.alias("lifetime_ns"),
        (size * lifetime / NS_PER_S).alias("byte_seconds"),
        (size * idle / NS_PER_S).alias("saved_byte_seconds"),
    )
    saved = pl.col("saved_byte_seconds")
    grouped = in_seconds.group_by("step", *_KEY).agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("size_bytes").sum().alias("bytes"),
        pl.col("lifetime_ns").mean().alias("mean_lifetime_ns"),
        pl.col("lifetime_ns").max().alias("max_lifetime_ns"),
        pl.col("byte_seconds").sum(),
        pl.when(saved.is_not_null().any()).then(saved.sum()).alias("saved_byte_seconds"),
    )
    in_order = grouped.sort("byte_seconds", *_KEY, descending=[True, *(False for _ in _KEY)])
    return answer(ACTIVATIONS, in_order_of_steps(in_order, linked, annotation), linked, annotation)
