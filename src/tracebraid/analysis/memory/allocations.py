"""What was allocated, by which op and for what, and when was it released?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.blocks.blocks import blocks
from tracebraid.model.answers import ALLOCATIONS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["allocations"]


def allocations(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Each allocation with its release, in the order of allocation: `model.answers.ALLOCATIONS`.

    An allocation and the next release at its address are a pair. In a trace without `[memory]` instants the rows are
    the storages of the Execution Trace, from the op that made each to the last that uses it.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    found = blocks(linked, annotation).with_columns(
        pl.col("begin_ns").alias("allocated_ns"),
        pl.col("end_ns").alias("released_ns"),
        (pl.col("end_ns") - pl.col("begin_ns")).alias("lifetime_ns"),
    )
    return answer(ALLOCATIONS, found, linked, annotation)
