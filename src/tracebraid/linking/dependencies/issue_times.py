"""When was the work of each stream issued: what a record, a wait or a synchronisation is before or after of."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["calls_by_correlation", "first_after", "issued_work", "last_before"]

_STREAM = ["device", "stream"]


def issued_work(timeline: Timeline, device_links: pl.DataFrame) -> pl.DataFrame:
    """Device work with `issued_ns`, in that order: when the call that launched it began.

    Correlations rise from call to call, on all threads. So work without a call in the trace was issued before the
    first call with a higher correlation, and in any case before it started: the earlier counts. Where work does not
    say its device (MTIA), its lane does.
    """
    times = timeline.events.select(
        "event_id", "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    called = timeline.events.select(
        pl.col("event_id").alias("call_event"), pl.col("ts_ns").alias("called_ns")
    )
    return (
        timeline.device_work.select("event_id", *_STREAM, "correlation")
        .join(times, on="event_id")
        .join(timeline.lanes.select("lane", "pid"), on="lane", how="left")
        .with_columns(pl.coalesce("device", "pid"))
        .join(device_links.select("event_id", "call_event"), on="event_id", how="left")
        .join(called, on="call_event", how="left")
        .pipe(_before_later_calls, timeline)
        .with_columns(pl.coalesce("called_ns", pl.min_horizontal("next_call_ns", "ts_ns")).alias("issued_ns"))
        .sort("issued_ns", "ts_ns", "event_id")
        .rename({"event_id": "work_event"})
        .select("work_event", *_STREAM, "issued_ns", "end_ns")
    )


def _before_later_calls(work: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """Work with `next_call_ns`: 1 ns before the first call with a higher correlation; null where work has its call."""
    calls = calls_by_correlation(timeline).select("correlation", "called_ns")
    unknown = pl.col("called_ns").is_null() & (pl.col("correlation") > 0)
    if calls.is_empty() or not work.select(unknown.any()).item():
        return work.with_columns(pl.lit(None, dtype=pl.Int64).alias("next_call_ns"))
    earliest = calls.sort("correlation").select(
        "correlation", (pl.col("called_ns").cum_min(reverse=True) - 1).alias("next_call_ns")
    )
    found = work.filter(unknown).select("event_id", "correlation").sort("correlation")
    later = found.join_asof(
        earliest, on="correlation", strategy="forward", allow_exact_matches=False, check_sortedness=False
    )
    return work.join(later.select("event_id", "next_call_ns"), on="event_id", how="left")


def calls_by_correlation(timeline: Timeline) -> pl.DataFrame:
    """One call for each correlation, with its name and times: the first to start, which is the outermost."""
    return (
        timeline.host_calls.filter(pl.col("correlation") > 0)
        .select(pl.col("event_id").alias("call_event"), "correlation")
        .join(
            timeline.events.select(
                pl.col("event_id").alias("call_event"),
                as_text("name").alias("call_name"),
                pl.col("ts_ns").alias("called_ns"),
                (pl.col("ts_ns") + pl.col("dur_ns")).alias("returned_ns"),
            ),
            on="call_event",
        )
        .sort("correlation", "called_ns", "call_event")
        .unique("correlation", keep="first", maintain_order=True)
    )


def last_before(asked: pl.DataFrame, at: str, issued: pl.DataFrame) -> pl.DataFrame:
    """Each asked row with the last work issued on its device and stream before its time `at`; null where none."""
    return _nearest(asked, at, issued, after=False)


def first_after(asked: pl.DataFrame, at: str, issued: pl.DataFrame) -> pl.DataFrame:
    """Each asked row with the first work issued on its device and stream after its time `at`; null where none."""
    return _nearest(asked, at, issued, after=True)


def _nearest(asked: pl.DataFrame, at: str, issued: pl.DataFrame, after: bool) -> pl.DataFrame:
    return asked.sort(at).join_asof(
        issued,
        left_on=at,
        right_on="issued_ns",
        by=_STREAM,
        strategy="forward" if after else "backward",
        allow_exact_matches=False,
        check_sortedness=False,
    )
