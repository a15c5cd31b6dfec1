"""Which device events waited for another stream before they could start, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_names import names_match
from tracebraid.model.call_names import PATTERNS, CallAction
from tracebraid.model.device_kind import WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

if TYPE_CHECKING:
    from polars._typing import AsofJoinStrategy

__all__ = ["stream_waits"]

_RECORDED = "Stream Wait Event"
_EVENT_WAIT = "event_wait"
_FOUND = {"event_id": pl.Int64, "until_ns": pl.Int64}


def stream_waits(linked: LinkedTrace) -> pl.DataFrame:
    """The events that waited for another stream: `event_id`, `until_ns` (when what they waited for ended; or null).

    By the first of these that the trace has:

    1. An `event_wait` of the device (MTIA) is the last event on the stream before it, records of events left out.
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
        found.append(_by_syncs(linked))
    else:
        found.append(_by_calls(linked))
    return pl.concat(found).sort("event_id", "until_ns").unique("event_id", keep="last", maintain_order=True)


def _by_device(linked: LinkedTrace) -> pl.DataFrame:
    is_wait, is_work = pl.col("name") == _EVENT_WAIT, pl.col("kind") != WAIT
    events = device_events(linked).filter(is_wait | is_work)
    if not events.select(is_wait.any()).item():
        return pl.DataFrame(schema=_FOUND)
    return (
        events.sort("lane", "ts_ns", "event_id")
        .with_columns((pl.col("ts_ns") + pl.col("dur_ns")).shift(1).over("lane").alias("until_ns"))
        .filter(is_work & is_wait.shift(1).over("lane"))
        .select(list(_FOUND))
    )


def _by_syncs(linked: LinkedTrace) -> pl.DataFrame:
    """The first work issued after each wait on its stream, and the end of the last work before the record.

    Before and after go by when the calls were made: the host queues work, records and waits on a stream in that order.
    """
    timeline = linked.timeline
    starts = timeline.events.get_column("ts_ns")
    calls = timeline.host_calls.select(
        "correlation", starts.gather(timeline.host_calls.get_column("event_id"))
    )
    calls = calls.sort("correlation", "ts_ns").unique("correlation", keep="first")
    syncs = timeline.tables["syncs"]
    rows = syncs.with_columns(starts.gather(syncs.get_column("event_id")).alias("sync_ns")).filter(
        (as_text("kind") == _RECORDED)
        & (pl.col("stream") >= 0)
        & (pl.col("stream") != pl.col("wait_on_stream"))
    )
    recorded = calls.select(
        pl.col("correlation").alias("wait_on_event_record_correlation"), pl.col("ts_ns").alias("recorded_ns")
    )
    waits = (
        rows.join(calls, on="correlation", how="left")
        .join(recorded, on="wait_on_event_record_correlation", how="left")
        .select(
            *("device", "stream", "wait_on_stream", "recorded_ns"),
            pl.coalesce("ts_ns", "sync_ns").alias("waited_ns"),
        )
    )
    issued = _issued(linked)
    after = issued.select("device", "stream", "event_id", pl.col("issued_ns").alias("waited_ns"))
    before = issued.select(
        "device",
        pl.col("stream").alias("wait_on_stream"),
        "until_ns",
        pl.col("issued_ns").alias("recorded_ns"),
    )
    waiting = _nearest(waits, after, "waited_ns", ["device", "stream"], "forward")
    found = _nearest(waiting, before, "recorded_ns", ["device", "wait_on_stream"], "backward")
    return found.filter(pl.col("event_id").is_not_null()).select(list(_FOUND))


def _nearest(
    asked: pl.DataFrame, work: pl.DataFrame, at: str, by: list[str], strategy: AsofJoinStrategy
) -> pl.DataFrame:
    return asked.sort(at).join_asof(
        work.sort(at), on=at, by=by, strategy=strategy, allow_exact_matches=False, check_sortedness=False
    )


def _issued(linked: LinkedTrace) -> pl.DataFrame:
    """All work: `device`, `stream`, `event_id`, `issued_ns` (when its call began, else its start) and `until_ns`."""
    events = device_events(linked)
    called = linked.timeline.events.get_column("ts_ns").gather(events.get_column("call_event"))
    return (
        events.select(
            "event_id",
            pl.coalesce(called, "ts_ns").alias("issued_ns"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("until_ns"),
        )
        .join(linked.timeline.device_work.select("event_id", "device", "stream"), on="event_id")
        .filter(pl.col("stream").is_not_null())
    )


def _by_calls(linked: LinkedTrace) -> pl.DataFrame:
    events = linked.timeline.events.select("event_id", "name", "lane", "ts_ns")
    calls = events[linked.timeline.host_calls.get_column("event_id").to_numpy()]
    waits = calls.filter(names_match(calls.get_column("name"), PATTERNS[CallAction.MAKE_STREAM_WAIT]))
    if waits.is_empty():
        return pl.DataFrame(schema=_FOUND)
    work = device_events(linked).select("event_id", "call_event").drop_nulls()
    launches = events.select("lane", "ts_ns")[work.get_column("call_event").to_numpy()]
    none = pl.lit(None, dtype=pl.Int64)
    rows = pl.concat(
        [
            waits.select("lane", "ts_ns", none.alias("event_id")),
            launches.with_columns(work.get_column("event_id")),
        ]
    ).sort("lane", "ts_ns", "event_id")
    is_wait = pl.col("event_id").is_null()
    found = rows.filter(~is_wait & is_wait.shift(1).over("lane"))
    return found.select("event_id", none.alias("until_ns"))
