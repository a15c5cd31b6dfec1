"""What did each launch cost the host, and when did its work start on the device?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.launched_work import STREAM, launched_work
from tracebraid.model.answers import LAUNCH_EVENTS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["launch_events"]


def launch_events(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Every call that has device work, of any API, in the order of their starts: `model.answers.LAUNCH_EVENTS`.

    Delay is max(0, start of the first device event - end of the call), as HTA's `launch_delay`; the same without the
    clipping, and from the start of the call, stand beside it. Delay holds the time that the work waits in the queue
    of its stream: where `stream_idle_ns` is 0, the stream was busy until the work started.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    return linked.derived(_launch_events, annotation)


def _launch_events(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    work = launched_work(linked, annotation).filter(pl.col("call_event").is_not_null())
    if work.is_empty():
        return LAUNCH_EVENTS.empty()
    calls = linked.timeline.host_calls.select(pl.col("event_id").alias("call_event"), "correlation")
    first = pl.col("ts_ns").first()
    after_end = first - pl.col("returned_ns").first()
    found = (
        work.sort("called_ns", "call_event", "ts_ns", "event_id")
        .group_by("call_event", maintain_order=True)
        .agg(
            pl.col("step", "api", "op_event", "op", *STREAM).first(),
            pl.col("called_ns").first().alias("start_ns"),
            (pl.col("returned_ns") - pl.col("called_ns")).first().alias("host_ns"),
            (first - pl.col("called_ns").first()).alias("after_start_ns"),
            after_end.alias("after_end_ns"),
            pl.max_horizontal(after_end, 0).alias("delay_ns"),
            pl.max_horizontal(first - pl.col("busy_until_ns").first(), 0).alias("stream_idle_ns"),
            pl.col("busy_until_ns").first(),
            pl.len().alias("kernels"),
            pl.col("dur_ns").sum().alias("device_ns"),
            (pl.col("end_ns").max() - first).alias("device_span_ns"),
            pl.struct(STREAM).n_unique().alias("streams"),
        )
        .with_columns(pl.when(pl.col("busy_until_ns").is_not_null()).then("stream_idle_ns"))
        .join(calls.unique("call_event"), on="call_event", how="left", maintain_order="left")
    )
    return answer(LAUNCH_EVENTS, found, linked, annotation)
