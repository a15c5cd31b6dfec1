"""Device work that a call of the host waited for, proven by effect: the call began before it ended, and outlasts it."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracebraid.linking.dependencies.edges import END_TO_END, edges, no_edges
from tracebraid.linking.dependencies.issue_times import last_before
from tracebraid.linking.dependencies.moments import Moments
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["blocking_calls", "blocking_copies"]

_WAITS_FOR_ALL = "(?i)(device|ctx|context)synchronize"
_WAITS_FOR_EVENT = "(?i)eventsynchronize"
_COPIES = "(?i)memcpy"
_TO_HOST = "DtoH|DeviceToHost"
_ASYNC, _PAGEABLE = "Async", "Pageable"
_OUTLASTS = pl.format("{} outlasts it", "call_name")


def blocking_calls(
    timeline: Timeline, issued_work: Callable[[], pl.DataFrame], moments: Moments
) -> pl.DataFrame:
    """From the end of device work to the end of a call that synchronises, of which the device recorded nothing.

    Candidates are, on each stream, the last work issued before the call; for an event, the last to end inside the
    call, of what was issued before it. A call for the whole device waited for all of them, another for the one of
    them that ended last: which stream it named is not in the trace. Where clocks of host and device differ, the last
    work of a device seems to outlast the call that waited for it: the last that did end inside it stands for it.
    """
    if timeline.device_work.is_empty() or timeline.host_calls.is_empty():
        return no_edges()
    calls = _unrecorded(timeline)
    if calls.is_empty() or (issued := issued_work()).is_empty():
        return no_edges()
    streams = issued.select("device", "stream").drop_nulls().unique(maintain_order=True)
    of_event = pl.col("call_name").str.contains(_WAITS_FOR_EVENT)
    of_all = pl.col("call_name").str.contains(_WAITS_FOR_ALL)
    asked = calls.join(streams, how="cross")
    # The same search by when work ended, instead of when it was issued.
    by_end = issued.drop("issued_ns").with_columns(
        pl.Series("issued_ns", moments.end_position[issued.get_column("work_event").to_numpy()])
    )
    returned = pl.Series("returned", moments.end_position[asked.get_column("call_event").to_numpy()])
    ended = last_before(
        asked.with_columns(returned).filter(of_event | of_all), "returned", by_end.sort("issued_ns")
    )
    found = pl.concat([last_before(asked.filter(~of_event), "called_ns", issued), ended], how="diagonal")
    inside = (
        found.filter(pl.col("work_event").is_not_null())
        .drop("issued_ns")
        .join(issued.select("work_event", "issued_ns"), on="work_event")
        .filter((pl.col("end_ns") > pl.col("called_ns")) & (pl.col("issued_ns") < pl.col("called_ns")))
    )
    done = (
        moments.end_position[inside.get_column("work_event").to_numpy()]
        < (moments.end_position[inside.get_column("call_event").to_numpy()])
    )
    inside = inside.filter(pl.Series(done)).sort("call_event", "end_ns", "work_event")
    last_of_stream = pl.struct("call_event", "device", "stream").is_last_distinct()
    waited = inside.filter(
        pl.when(of_all).then(last_of_stream).otherwise(pl.col("call_event").is_last_distinct())
    )
    return _edges(waited.rename({"work_event": "before_event", "call_event": "after_event"}))


def blocking_copies(timeline: Timeline, device_links: pl.DataFrame) -> pl.DataFrame:
    """From the end of a copy to the host to the end of the call that made it, where that call waits for it.

    It does so unless it is asynchronous, and then too if the host's memory is pageable.
    """
    if timeline.device_work.is_empty():
        return no_edges()
    name = timeline.events.select("event_id", as_text("name"))
    copies = (
        device_links.filter(pl.col("call_event").is_not_null())
        .select(pl.col("event_id").alias("before_event"), pl.col("call_event").alias("after_event"))
        .join(name.rename({"event_id": "before_event", "name": "copy"}), on="before_event")
        .filter(pl.col("copy").str.contains(_TO_HOST))
        .join(name.rename({"event_id": "after_event", "name": "call_name"}), on="after_event")
    )
    waits = ~pl.col("call_name").str.contains(_ASYNC) | pl.col("copy").str.contains(_PAGEABLE)
    return _edges(copies.filter(pl.col("call_name").str.contains(_COPIES) & waits).sort("before_event"))


def _edges(pairs: pl.DataFrame) -> pl.DataFrame:
    return edges(pairs, "sync", END_TO_END, _OUTLASTS, pl.lit(False))


def _unrecorded(timeline: Timeline) -> pl.DataFrame:
    """Calls that synchronise by their name, for which there is no `cuda_sync` event."""
    recorded = timeline.tables["syncs"].get_column("correlation").drop_nulls()
    name = as_text("name")
    times = timeline.events.select(
        pl.col("event_id").alias("call_event"), name.alias("call_name"), pl.col("ts_ns").alias("called_ns")
    )
    return (
        timeline.host_calls.filter(~pl.col("correlation").is_in(recorded.implode()).fill_null(False))
        .select(pl.col("event_id").alias("call_event"))
        .join(times, on="call_event")
        .filter(call_does(pl.col("call_name"), CallAction.WAIT))
    )
