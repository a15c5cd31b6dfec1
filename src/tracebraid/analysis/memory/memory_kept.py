"""What do the steps leave allocated, over and over: what may leak?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.blocks.blocks import blocks
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import MEMORY_KEPT
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["memory_kept"]

_FEWEST_STEPS = 2
"""Steps that must each leave something of a kind: what a single step leaves may be released in the next."""

_KEY = ["device", "category", "op", "module", "size_bytes"]


def memory_kept(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Allocations of which several steps leave some, the largest in total first: `model.answers.MEMORY_KEPT`.

    Left out are those of the first step, in which optimizers make their state, those of the last, which the next may
    release, and kinds of which fewer than two other steps leave any: the trace must hold at least four steps.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    windows = step_windows(linked, annotation)
    between = windows.get_column("step").slice(1, max(windows.height - 2, 0))
    never = pl.col("begin_ns").is_not_null() & pl.col("end_ns").is_null()
    kept = blocks(linked, annotation).filter(never, pl.col("step").is_in(between.to_list()))
    found = (
        kept.group_by(_KEY)
        .agg(
            pl.col("step").n_unique().cast(pl.Int64).alias("steps"),
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("size_bytes").sum().alias("bytes"),
        )
        .filter(pl.col("steps") >= _FEWEST_STEPS)
        .with_columns((pl.col("bytes") / max(len(between), 1)).alias("bytes_per_step"))
        .sort("bytes", *_KEY, descending=[True, *(False for _ in _KEY)])
    )
    return answer(MEMORY_KEPT, found, linked, annotation)
