"""What keeps a device busy: its computing, communication and copies; without a device, the host's ops."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device_events import device_events
from tracebraid.model.category import Role
from tracebraid.model.device_kind import COMMUNICATION, COMPUTE, WAIT, host_op_communicates
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["HOST_DEVICE", "busy_events", "in_order_of_devices"]

HOST_DEVICE = "cpu"
"""The device of a trace without device work."""

_COLUMNS = ["event_id", "name", "kind", "device", "lane", "ts_ns", "dur_ns", "call_event", "op_event"]


def busy_events(linked: LinkedTrace) -> pl.DataFrame:
    """Columns: event_id, name, kind, device, lane, ts_ns, dur_ns, call_event, op_event.

    Device events that do not only wait; where there are none the host's ops, and annotations that communicate, as
    device `cpu`.
    """
    return linked.derived(_busy_events)


def in_order_of_devices(names: pl.Series) -> list[str]:
    """Names of devices, each once, in the order of their numbers."""
    return sorted(names.unique().to_list(), key=lambda name: (len(name), name))


def _busy_events(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked).filter(pl.col("kind") != WAIT)
    return _host_events(linked) if events.is_empty() else events


def _host_events(linked: LinkedTrace) -> pl.DataFrame:
    ops = linked.timeline.of_role(Role.OP, Role.ANNOTATION)
    communicates = pl.col("communicates")
    is_op = as_text("category") == "cpu_op"
    none = pl.lit(None, dtype=pl.Int64)
    return (
        ops.with_columns(host_op_communicates(ops))
        .filter(is_op | communicates)
        .with_columns(
            as_text("name"),
            pl.lit(HOST_DEVICE).alias("device"),
            pl.when(communicates).then(pl.lit(COMMUNICATION)).otherwise(pl.lit(COMPUTE)).alias("kind"),
            none.alias("call_event"),
            none.alias("op_event"),
        )
        .select(_COLUMNS)
    )
