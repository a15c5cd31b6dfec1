"""When was the work of each stream issued: what a record, a wait or a synchronisation is before or after of."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["calls_by_correlation", "first_after", "issued_work", "last_before"]

_STREAM = ["device", "stream"]


def issued_work(timeline: Timeline, device_links: pl.DataFrame) -> pl.DataFrame:
    """Device work with `issued_ns`, in that order: when the call that launched it began.

    Work without a call in the trace was issued before it started, and counts as issued then.
    """
    times = timeline.events.select("event_id", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
    called = timeline.events.select(
        pl.col("event_id").alias("call_event"), pl.col("ts_ns").alias("called_ns")
    )
    return (
        timeline.device_work.select("event_id", *_STREAM)
        .join(times, on="event_id")
        .join(device_links.select("event_id", "call_event"), on="event_id", how="left")
        .join(called, on="call_event", how="left")
        .with_columns(pl.coalesce("called_ns", "ts_ns").alias("issued_ns"))
        .sort("issued_ns", "ts_ns", "event_id")
        .rename({"event_id": "work_event"})
        .select("work_event", *_STREAM, "issued_ns", "end_ns")
    )


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
