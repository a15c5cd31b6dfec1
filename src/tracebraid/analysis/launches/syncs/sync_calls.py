"""Which calls waited for the device, for how long, for what, and who made them?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.callers import with_callers
from tracebraid.analysis.launches.launched_work import STREAM, launched_work, with_steps
from tracebraid.analysis.launches.syncs.synchronising import synchronising_calls
from tracebraid.analysis.launches.syncs.waits import waits
from tracebraid.model.answers import SYNC_CALLS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["sync_calls"]


def sync_calls(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Every call that synchronises or may do so, in the order of their starts: `model.answers.SYNC_CALLS`.

    These are calls that synchronise with a device, a stream or an event, copies that the host waits for, allocations
    and releases of memory (which may wait for the device), and queries (which wait for nothing, but may be polled).
    A call inside another of them counts with that.

    `blocked_ns` reaches from the start of the call to the end of what it waited for, at most to the end of the call.
    What it waited for is known, by the first of these: `launched`, its own copy, or the work before that on the stream,
    where the call waited longer for that; `recorded`, the device's own record (`cuda_sync`) says so; `effect`, the last
    work issued before the call outlasts its start and ends before it returns (see `linked.dependencies`); `inferred`,
    the last work of any stream to end in the call.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    return linked.derived(_sync_calls, annotation)


def _sync_calls(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    calls = synchronising_calls(linked, annotation)
    if calls.is_empty():
        return SYNC_CALLS.empty()
    work = launched_work(linked, annotation).select(
        pl.col("event_id").alias("waited_event"),
        pl.col("name").alias("waited_name"),
        *(pl.col(name).alias(f"waited_{name}") for name in STREAM),
    )
    found = (
        with_steps(calls.rename({"start_ns": "ts_ns"}), linked, annotation)
        .rename({"ts_ns": "start_ns"})
        .pipe(with_callers, linked, annotation)
        .join(waits(linked, calls, annotation), on="call_event", how="left", maintain_order="left")
        .join(work, on="waited_event", how="left", maintain_order="left")
        .with_columns(pl.col("blocked_ns").fill_null(0))
        .with_columns((pl.col("host_ns") - pl.col("blocked_ns")).alias("other_ns"))
    )
    return answer(SYNC_CALLS, found, linked, annotation)
