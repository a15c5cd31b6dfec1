"""Which device events waited for another stream before they could start, and until when."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device_events import device_events
from tracebraid.analysis.time.idle.name_search import names_match
from tracebraid.model.category import Role
from tracebraid.model.device_kind import WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["stream_waits"]

_WAIT_CALL = r"(?i)StreamWaitEvent"
_RECORDED = "Stream Wait Event"
_FOUND = {"event_id": pl.Int64, "until_ns": pl.Int64}


def stream_waits(linked: LinkedTrace) -> pl.DataFrame:
    """The events that waited for another stream: `event_id`, `until_ns` (when what they waited for ended; or null).

    By the first of these that the trace has:

    1. An `event_wait` of the device (MTIA) is the last event on the stream before it.
    2. A `cuda_sync` row `Stream Wait Event` on its stream: it is the first work that was issued after the wait.
    3. No such rows are in the trace, and on the launching thread a call `StreamWaitEvent` lies between the previous
       launch and this: which stream it names is not recorded, but a program tells a stream to wait right before
       it launches what needs the wait.
    """
    return linked.derived(_stream_waits)


def _stream_waits(linked: LinkedTrace) -> pl.DataFrame:
    found = [_by_device(linked)]
    syncs = linked.timeline.tables["syncs"]
    if (syncs.get_column("kind").cast(pl.String) == _RECORDED).any():
        found.append(_by_dependencies(linked))
    else:
        found.append(_by_calls(linked))
    return pl.concat(found).sort("event_id", "until_ns").unique("event_id", keep="last", maintain_order=True)


def _by_device(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked)
    if not (events.get_column("kind") == WAIT).any():
        return pl.DataFrame(schema=_FOUND)
    before = (
        pl.col("kind").shift(1).over("lane") == WAIT,
        pl.col("name").shift(1).over("lane") == "event_wait",
    )
    return (
        events.sort("lane", "ts_ns", "event_id")
        .with_columns((pl.col("ts_ns") + pl.col("dur_ns")).shift(1).over("lane").alias("until_ns"))
        .filter(*before, pl.col("kind") != WAIT)
        .select(list(_FOUND))
    )


def _by_dependencies(linked: LinkedTrace) -> pl.DataFrame:
    times = linked.timeline.events.select(
        pl.col("event_id").alias("before_event"), (pl.col("ts_ns") + pl.col("dur_ns")).alias("until_ns")
    )
    return (
        linked.dependencies.filter(as_text("kind") == "event_wait")
        .select("before_event", pl.col("after_event").alias("event_id"))
        .join(times, on="before_event")
        .group_by("event_id", maintain_order=True)
        .agg(pl.col("until_ns").max())
    )


def _by_calls(linked: LinkedTrace) -> pl.DataFrame:
    calls = linked.timeline.of_role(Role.CALL).select("event_id", "name", "lane", "ts_ns")
    waits = calls.filter(names_match(calls.get_column("name"), _WAIT_CALL)).select(
        "lane", "ts_ns", waits=True
    )
    if waits.is_empty():
        return pl.DataFrame(schema=_FOUND)
    launches = (
        device_events(linked)
        .select("event_id", pl.col("call_event"))
        .drop_nulls()
        .join(calls.select(pl.col("event_id").alias("call_event"), "lane", "ts_ns"), on="call_event")
        .select("lane", "ts_ns", "event_id", waits=False)
    )
    return (
        pl.concat(
            [waits.with_columns(pl.lit(None, dtype=pl.Int64).alias("event_id")), launches], how="diagonal"
        )
        .sort("lane", "ts_ns", "event_id")
        .filter(~pl.col("waits") & pl.col("waits").shift(1).over("lane"))
        .select("event_id", pl.lit(None, dtype=pl.Int64).alias("until_ns"))
    )
