"""Which host thread made a device wait, and which works on its behalf."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.time.idle.launches import gap_launches
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["NO_THREAD", "blamed_threads"]

NO_THREAD = -1
"""Stands for no thread."""

_THREADS = {"device": pl.String, "lane": pl.Int64, "launches": pl.UInt32, "first_ns": pl.Int64}


def blamed_threads(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """For each row of `gap_launches` the lanes `thread` and `partner`; -1 for none.

    `thread` is the one that launched what ended the gap. Where that is not known, or nothing followed, it is the
    device's main thread: the first that launched work on it. `partner` is the main thread for any other, and for the
    main thread the other one that launched the most: the backward pass runs on a thread of its own, while the main
    thread waits for it.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    gaps = gap_launches(linked, annotation).select("device", "thread")
    threads = _launching_threads(linked)
    main = threads.sort("first_ns", "lane").unique("device", keep="first", maintain_order=True)
    main = main.select("device", pl.col("lane").alias("main"))
    others = threads.join(main, on="device").filter(pl.col("lane") != pl.col("main"))
    helping = others.sort("launches", "lane", descending=[True, False]).unique("device", keep="first")
    helping = helping.select("device", pl.col("lane").alias("helping"))
    found = gaps.join(main, on="device", how="left", maintain_order="left").join(
        helping, on="device", how="left", maintain_order="left"
    )
    thread = pl.coalesce("thread", "main")
    return found.select(
        thread.fill_null(NO_THREAD).alias("thread"),
        pl.when(thread == pl.col("main"))
        .then("helping")
        .otherwise("main")
        .fill_null(NO_THREAD)
        .alias("partner"),
    )


def _launching_threads(linked: LinkedTrace) -> pl.DataFrame:
    """Threads by device: `device`, `lane`, `launches`, `first_ns`."""
    calls = device_events(linked).select("event_id", "call_event")
    events = work_events(linked).join(calls, on="event_id", how="left")
    launched = events.select("device", pl.coalesce("call_event", "op_event").alias("launch")).drop_nulls()
    if launched.is_empty():
        return pl.DataFrame(schema=_THREADS)
    host = linked.timeline.events.select("lane", "ts_ns")[launched.get_column("launch").to_numpy()]
    return (
        pl.concat([launched.select("device"), host], how="horizontal")
        .group_by("device", "lane")
        .agg(pl.len().alias("launches"), pl.col("ts_ns").min().alias("first_ns"))
    )
