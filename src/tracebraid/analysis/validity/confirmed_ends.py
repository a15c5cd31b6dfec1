"""Which device events ended when the trace says so: something waited for their end, and went on at once."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.launches.syncs.synchronising import synchronising_calls
from tracebraid.model.answers import SyncKind
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.units import NS_PER_US

__all__ = ["with_confirmed_end"]

_ROUNDING_NS = NS_PER_US
"""How much before the end what waited may seem to go on, in traces in µs."""
_AT_ONCE_NS = 20 * NS_PER_US
"""How long after the end what waited goes on, at most: calls return within 1 to 16 µs, see `RETURN_NS` of the waits."""
_NO_WAIT = [SyncKind.QUERY.value, SyncKind.ALLOCATION.value]


def with_confirmed_end(
    events: pl.DataFrame, work: pl.DataFrame, linked: LinkedTrace, annotation: str
) -> pl.DataFrame:
    """Of some device events, those whose end is confirmed: `event_id`.

    What had waited since the event's middle, or longer, went on at its end: work of the device that had been launched
    by then started, or a call of the host that synchronises returned. A duration that is wrong ends at no such moment.

    Args:
        events: few rows of `work`.
        work: as `device_work`.
        linked: one rank.
        annotation: what marks a step.
    """
    starts = linked.timeline.events.get_column("ts_ns")
    launched = work.select(
        pl.col("device").alias("of_device"),
        pl.col("event_id").alias("other"),
        pl.col("ts_ns").alias("went_on_ns"),
        starts.gather(work.get_column("call_event")).alias("since_ns"),
    ).filter(pl.col("since_ns").is_not_null())
    calls = synchronising_calls(linked, annotation).filter(~pl.col("kind").is_in(_NO_WAIT))
    returned = calls.select(pl.col("end_ns").alias("went_on_ns"), pl.col("start_ns").alias("since_ns"))
    asked = events.select(
        "event_id",
        "device",
        (pl.col("ts_ns") + pl.col("dur_ns") // 2).alias("middle_ns"),
        (pl.col("end_ns") - _ROUNDING_NS).alias("from_ns"),
        (pl.col("end_ns") + _AT_ONCE_NS).alias("until_ns"),
    )
    went_on = (
        pl.col("went_on_ns") >= pl.col("from_ns"),
        pl.col("went_on_ns") <= pl.col("until_ns"),
        pl.col("since_ns") <= pl.col("middle_ns"),
    )
    by_work = asked.join_where(launched, *went_on).filter(
        (pl.col("device") == pl.col("of_device")) & (pl.col("event_id") != pl.col("other"))
    )
    by_calls = asked.join_where(returned, *went_on)
    return pl.concat([by_work.select("event_id"), by_calls.select("event_id")]).unique()
