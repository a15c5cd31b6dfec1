"""The device events of a rank with what every analysis asks of them: kind, device, launching op and step."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.event_columns import event_columns, fetched, rows_of_events
from tracebraid.analysis.time.step_windows import BEFORE_ALL_NS, step_of_moments, step_windows
from tracebraid.model.category import Role
from tracebraid.model.device_kind import kind_of_device_event
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_events", "device_events_by_step"]

_COLUMNS = {
    "event_id": pl.Int64(),
    "name": pl.String(),
    "kind": pl.String(),
    "device": pl.String(),
    "lane": pl.Int64(),
    "ts_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "call_event": pl.Int64(),
    "op_event": pl.Int64(),
}


def device_events(linked: LinkedTrace) -> pl.DataFrame:
    """Columns: event_id, name, kind, device, lane, ts_ns, dur_ns, call_event, op_event.

    `device` is the pid of the event's lane, as text; `lane` is the stream: its row in `lanes`.
    """
    return linked.derived(_device_events)


def _device_events(linked: LinkedTrace) -> pl.DataFrame:
    timeline = linked.timeline
    if not timeline.has_device:
        return pl.DataFrame(schema=_COLUMNS)
    device = pl.coalesce(as_text("pid"), pl.col("pid_text"), pl.lit("unknown"))
    work = timeline.of_role(Role.DEVICE_WORK)
    event = work.get_column("event_id")
    launches = linked.launches.select("event_id", "call_event", "op_event")
    launchers = fetched(launches.drop("event_id"), rows_of_events(launches.get_column("event_id"), event))
    op = launchers.get_column("op_event")
    work = work.with_columns(
        *launchers.get_columns(),
        *event_columns(timeline, op, op_name="name", op_category="category"),
        event.is_in(timeline.collectives.get_column("event_id").implode()).alias("has_collective_args"),
    ).join(
        timeline.lanes.select("lane", device.alias("device")), on="lane", how="left", maintain_order="left"
    )
    return work.with_columns(as_text("name"), kind_of_device_event(work)).select(list(_COLUMNS))


def device_events_by_step(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The same with `step`: that in which the work was launched; null outside of all, and where no launch is known."""
    return linked.derived(_device_events_by_step, annotation)


def _device_events_by_step(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    events = device_events(linked)
    launch = events.select(pl.coalesce("call_event", "op_event")).to_series()
    moments = event_columns(linked.timeline, launch, ts_ns="ts_ns")[0].fill_null(BEFORE_ALL_NS)
    step = step_of_moments(moments.to_frame(), step_windows(linked, annotation)).get_column("step")
    return events.with_columns(step)
