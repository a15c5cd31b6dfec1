"""The device events of a rank with what every analysis asks of them: kind, device, launching op and step."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.category import Role
from tracebraid.model.device_kind import kind_of_device_event
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_events", "device_events_by_step"]


def device_events(linked: LinkedTrace) -> pl.DataFrame:
    """Columns: event_id, name, kind, device, lane, ts_ns, dur_ns, call_event, op_event.

    `device` is the pid of the event's lane, as text; `lane` is the stream: its row in `lanes`.
    """
    return linked.derived(_device_events)


def _device_events(linked: LinkedTrace) -> pl.DataFrame:
    timeline = linked.timeline
    collective = pl.col("event_id").is_in(timeline.collectives.get_column("event_id").implode())
    device = pl.coalesce(as_text("pid"), pl.col("pid_text"), pl.lit("unknown"))
    launchers = linked.launches.select("event_id", "call_event", "op_event")
    ops = timeline.events.select(
        pl.col("event_id").alias("op_event"),
        pl.col("name").alias("op_name"),
        pl.col("category").alias("op_category"),
    )
    work = (
        timeline.of_role(Role.DEVICE_WORK)
        .with_columns(collective.alias("has_collective_args"))
        .join(
            timeline.lanes.select("lane", device.alias("device")),
            on="lane",
            how="left",
            maintain_order="left",
        )
        .join(launchers, on="event_id", how="left", maintain_order="left")
        .join(ops, on="op_event", how="left", maintain_order="left")
    )
    return work.select(
        "event_id",
        as_text("name"),
        kind_of_device_event(work),
        "device",
        "lane",
        "ts_ns",
        "dur_ns",
        "call_event",
        "op_event",
    )


def device_events_by_step(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The same with `step`: that in which the work was launched; null outside of all, and where no launch is known."""
    return linked.derived(_device_events_by_step, annotation)


def _device_events_by_step(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    events = device_events(linked)
    launch = linked.timeline.events.select(pl.col("event_id").alias("launch_event"), "ts_ns")
    launches = (
        events.select("event_id", pl.coalesce("call_event", "op_event").alias("launch_event"))
        .filter(pl.col("launch_event").is_not_null())
        .join(launch, on="launch_event", how="left", maintain_order="left")
    )
    step = step_of_moments(launches, step_windows(linked, annotation)).select("event_id", "step")
    return events.join(step, on="event_id", how="left", maintain_order="left")
