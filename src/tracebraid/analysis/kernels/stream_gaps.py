"""How long was a stream empty before and after each of its events?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device_events import device_events
from tracebraid.model.device_kind import WAIT
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["stream_gaps"]


def stream_gaps(linked: LinkedTrace) -> pl.DataFrame:
    """`device_events` without those that only wait, by stream and start, and with the gaps on their stream.

    Returns:
        event_id, lane, ts_ns, dur_ns and: gap_before_ns, from the latest end of all earlier events of the stream to the
        start (0 where they overlap, null for the first); gap_after_ns, that of the next event (null for the last).
    """
    return linked.derived(_stream_gaps)


def _stream_gaps(linked: LinkedTrace) -> pl.DataFrame:
    end = pl.col("ts_ns") + pl.col("dur_ns")
    reached = end.cum_max().shift(1).over("lane")
    gap = (pl.col("ts_ns") - reached).clip(lower_bound=0)
    return (
        device_events(linked)
        .filter(pl.col("kind") != WAIT)
        .select("event_id", "lane", "ts_ns", "dur_ns")
        .sort("lane", "ts_ns", "event_id")
        .with_columns(gap.alias("gap_before_ns"))
        .with_columns(pl.col("gap_before_ns").shift(-1).over("lane").alias("gap_after_ns"))
    )
