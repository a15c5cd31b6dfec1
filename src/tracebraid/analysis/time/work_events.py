"""What works in a trace: the events of its devices, or where there are none the ops of its host."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.model.category import Role
from tracebraid.model.device_kind import COMMUNICATION, COMPUTE, WAIT, host_op_communicates
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["HOST", "compute_cover", "work_events"]

HOST = "cpu"
"""`device` of what the host does, where a trace has no device work."""


def work_events(linked: LinkedTrace) -> pl.DataFrame:
    """Columns: event_id, name, kind, device, lane, ts_ns, dur_ns, op_event; events that only wait are left out.

    Without device events they are the host's ops, as device `cpu`: those of a communication library communicate, and
    so do the annotations that its backends make; all other ops compute. The `op_event` of each is itself.
    """
    return linked.derived(_work_events)


def _work_events(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked).filter(pl.col("kind") != WAIT).drop("call_event")
    return _host_events(linked) if events.is_empty() else events


def _host_events(linked: LinkedTrace) -> pl.DataFrame:
    ops = linked.timeline.of_role(Role.OP, Role.ANNOTATION)
    communicates = pl.col("communicates")
    is_op = as_text("category") == "cpu_op"
    return (
        ops.with_columns(host_op_communicates(ops))
        .filter(is_op | communicates)
        .select(
            "event_id",
            as_text("name"),
            pl.when(communicates).then(pl.lit(COMMUNICATION)).otherwise(pl.lit(COMPUTE)).alias("kind"),
            pl.lit(HOST).alias("device"),
            "lane",
            "ts_ns",
            "dur_ns",
            pl.col("event_id").alias("op_event"),
        )
    )


def compute_cover(linked: LinkedTrace, device: str) -> Cover:
    """The moments in which something computes on a device."""
    return linked.derived(_compute_cover, device)


def _compute_cover(linked: LinkedTrace, device: str) -> Cover:
    compute = work_events(linked).filter((pl.col("device") == device) & (pl.col("kind") == COMPUTE))
    starts, durations = (compute.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    return cover_of(starts, starts + durations)
