"""Which device events and steps reach beyond the time in which the trace was taken?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.analysis.validity.doubts import DOUBTS, about_events, device_work
from tracebraid.model.answers import Doubt
from tracebraid.model.category import Role, categories_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.units import NS_PER_MS

__all__ = ["beyond_trace", "steps_beyond_trace"]

_PROFILER_SPAN = "Trace"
"""Category of the spans in which Kineto says from when to when it recorded."""

_SLACK_NS = NS_PER_MS
"""How far the last work may reach beyond the recorded span, at least: the two clocks differ by microseconds."""
_SLACK_SHARE = 0.1
"""The same, as a share of the span."""
_UNKNOWN_SPAN_SLACK_NS = 1000 * NS_PER_MS
"""The slack, at least, where the recorded span is unknown: work may go on when the last call of the host is over;
and before the start, where clocks of devices were seen to be off (by 0.1 s on MTIA). At most the length of the
trace."""


def beyond_trace(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Device events that end after the host and the profiler stopped, or begin before they started, by far.

    The time of the trace reaches from the first start to the last end of what the host ran, and of the profiler's
    own span; and up to the last start on a device.
    """
    work = device_work(linked, annotation)
    events = linked.timeline.events
    recorded = [_PROFILER_SPAN, *categories_of(Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON)]
    spans = events.filter(pl.col("category") == _PROFILER_SPAN)
    bounds = (
        events.select("category", "ts_ns", "dur_ns")
        .filter(pl.col("category").is_in(recorded))
        .select(pl.col("ts_ns").min().alias("start"), (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end"))
        .row(0)
    )
    if work.is_empty() or bounds[0] is None:
        return about_events(Doubt.OUTLASTS_TRACE, work.clear(), linked, annotation)
    start, end = bounds
    length = end - start
    unknown = max(_UNKNOWN_SPAN_SLACK_NS, length)
    late = unknown if spans.is_empty() else max(_SLACK_NS, round(_SLACK_SHARE * length))
    end = max(end, _last_start(work, end + unknown))
    beyond = work.filter((pl.col("end_ns") > end + late) | (pl.col("ts_ns") < start - unknown))
    events = beyond.select("event_id", "ts_ns", "end_ns", "step", pl.col("dur_ns").alias("time_ns"))
    return about_events(Doubt.OUTLASTS_TRACE, events, linked, annotation)


def steps_beyond_trace(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Steps that begin before the profiler's own span or end after it, by far: a part of them was not recorded."""
    spans = linked.timeline.events.filter(pl.col("category") == _PROFILER_SPAN)
    if spans.is_empty():
        return pl.DataFrame(schema=DOUBTS)
    start, end = spans.select(
        pl.col("ts_ns").min(), (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end_ns")
    ).row(0)
    slack = max(_SLACK_NS, round(_SLACK_SHARE * (end - start)))
    windows = step_windows(linked, annotation)
    beyond = windows.filter((pl.col("end_ns") > end + slack) | (pl.col("start_ns") < start - slack))
    return (
        beyond.group_by("step", maintain_order=True)
        .agg(
            pl.lit(Doubt.OUTLASTS_TRACE.value).alias("doubt"),
            pl.len().cast(pl.Int64).alias("count"),
            pl.lit(None, dtype=pl.Int64).alias("event_id"),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("time_ns"),
        )
        .select(DOUBTS.names())
    )


def _last_start(work: pl.DataFrame, limit: int) -> int:
    """The last start of device work that is not itself absurd; the limit where there is none."""
    last = work.filter(pl.col("ts_ns") <= limit).get_column("ts_ns").max()
    return last if isinstance(last, int) else limit
