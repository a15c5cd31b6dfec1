"""The name of each stream: its number on the device, as the work on it says."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["stream_names"]


def stream_names(linked: LinkedTrace) -> pl.Series:
    """The stream of each row of `lanes`, as text: that of the first work on it, else the lane's thread id."""
    return linked.derived(_stream_names)


def _stream_names(linked: LinkedTrace) -> pl.Series:
    timeline = linked.timeline
    work = timeline.device_work.select("event_id", "stream").drop_nulls()
    lanes = timeline.events.get_column("lane").gather(work.get_column("event_id"))
    streams = work.select(as_text("stream"), lanes.alias("lane")).unique("lane", keep="first")
    thread = pl.coalesce("stream", as_text("tid"), "tid_text", pl.lit("unknown"))
    return (
        timeline.lanes.select("lane", "tid", "tid_text")
        .join(streams, on="lane", how="left", maintain_order="left")
        .select(thread.alias("stream"))
        .to_series()
    )
