"""Activations by op, module, shape and size, those with the most bytes x time first."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import NO_STEP, answer
from tracebraid.analysis.memory.blocks import blocks
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, analysis
from tracebraid.model.answers.memory import ACTIVATIONS, MemoryCategory
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_S

_KEY = ["device", "op", "module", "shape", "dtype", "size_bytes"]


@analysis(
    ACTIVATIONS,
    Family.MEMORY,
    needs=(Need.ALLOCATIONS,),
    uses=(Need.MEMORY, Need.EXECUTION_TRACE, Need.MODULES, Need.STEPS),
    shown=("op size_bytes count bytes mean_lifetime_ns byte_seconds saved_byte_seconds module shape dtype"),
    when_empty="nothing is known to be made in a forward pass and held for backward",
    formula=(
        "Made in forward and taken by backward. byte seconds: size * lifetime, added up; saved: the part "
        "between the last forward and the first backward use."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("bytes",)),
)
def activations(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """Which activations are held longest?

    Activations by op, module, shape and size, those with the most bytes x time first.

    Bytes x time of an activation is its size times the time from its allocation to its release, or to the trace's
    end.
    Recomputing saves the part between its last use in forward and its first in backward, which the Execution
    Trace tells.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were allocated, instead of over all.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    found = blocks(linked).filter(pl.col("category") == MemoryCategory.ACTIVATIONS.value)
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
    return answer(ACTIVATIONS, in_order_of_steps(in_order, linked), linked)
