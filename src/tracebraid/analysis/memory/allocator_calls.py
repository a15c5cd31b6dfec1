"""Which ops make the allocator take memory from a device, and how long does that take?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.host.device_calls import device_calls
from tracebraid.analysis.step_rows import NO_STEP
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import ALLOCATOR_CALLS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["allocator_calls"]

_KEY = ["call", "kind", "op", "module"]


def allocator_calls(
    linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """Calls such as `cudaMalloc` and `cudaFree` by op, the longest in total first: `model.answers.ALLOCATOR_CALLS`.

    A caching allocator makes none in steady state: both wait for the device. `steady_count` counts those in a step
    after the first.

    Args:
        linked: one rank.
        per_step: rows for each step in which the calls started, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    calls = device_calls(linked, annotation)
    if not per_step:
        calls = calls.with_columns(NO_STEP)
    found = calls.group_by("step", *_KEY).agg(
        pl.len().alias("count"),
        pl.col("is_steady").sum().alias("steady_count"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").max().alias("max_ns"),
    )
    in_order = found.sort("total_ns", *_KEY, descending=[True, False, False, False, False])
    return answer(ALLOCATOR_CALLS, in_order_of_steps(in_order, linked, annotation), linked, annotation)
