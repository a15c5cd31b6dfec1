"""How much memory is allocated and reserved on each device over time?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_rows import names_of_rows
from tracebraid.analysis.memory.blocks.blocks import memory_source
from tracebraid.analysis.memory.blocks.usage import usage
from tracebraid.analysis.memory.host.host_context import host_context
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers import MEMORY_TIMELINE
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["memory_timeline"]


def memory_timeline(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The changes of each device's allocated memory in the order of time: `model.answers.MEMORY_TIMELINE`.

    From the allocator's `[memory]` instants; in a trace without any, from the storages of the Execution Trace, each
    from the op that made it to the last that uses it, which is a lower bound.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    changes = usage(linked, annotation).sort("ts_ns", "order")
    context = host_context(linked)
    op = context.of_rows(context.op, changes.get_column("row").to_numpy())
    found = step_of_moments(changes, step_windows(linked, annotation)).with_columns(
        names_of_rows(linked, op).cast(pl.String).alias("op"),
        pl.lit(memory_source(linked).value).alias("source"),
    )
    return answer(MEMORY_TIMELINE, found, linked, annotation)
