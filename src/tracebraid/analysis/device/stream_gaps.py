"""How long was a stream empty before and after each of its events?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.model.device_kind import WAIT
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["gaps_of", "stream_gaps"]


def stream_gaps(linked: LinkedTrace) -> pl.DataFrame:
    """`device_events` without those that only wait, by stream and start, and with the gaps on their stream.

    Returns:
        event_id, lane, ts_ns, dur_ns and: busy_until_ns, the latest end of all earlier events of the stream (null for
        the first); gap_before_ns, from then to the start (0 where they overlap); gap_after_ns, that of the next event
        (null for the last).
    """
    return linked.derived(_stream_gaps)


def _stream_gaps(linked: LinkedTrace) -> pl.DataFrame:
    columns = device_events(linked).select("event_id", "kind", "lane", "ts_ns", "dur_ns")
    return gaps_of(columns).drop("kind")


def gaps_of(events: pl.DataFrame) -> pl.DataFrame:
    """Some device events without those that only wait, with all their columns and those of `stream_gaps`.

    Args:
        events: rows of `device_events`, with `event_id`, `kind`, `lane`, `ts_ns` and `dur_ns`.
    """
    end = pl.col("ts_ns") + pl.col("dur_ns")
    gap = (pl.col("ts_ns") - pl.col("busy_until_ns")).clip(lower_bound=0)
    return (
        events.filter(pl.col("kind") != WAIT)
        .sort("lane", "ts_ns", "event_id")
        .with_columns(end.cum_max().shift(1).over("lane").alias("busy_until_ns"))
        .with_columns(gap.alias("gap_before_ns"))
        .with_columns(pl.col("gap_before_ns").shift(-1).over("lane").alias("gap_after_ns"))
    )
