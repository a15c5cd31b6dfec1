"""Where on the host was each device event launched, and in which step?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import rows_of_events
from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.step_rows import StepOptions, by_launch, by_start
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["host_times", "launched"]


def launched(linked: LinkedTrace, options: StepOptions | None = None) -> pl.DataFrame:
    """`device_events` with `row`; with options `step` and `in_means` too, by the step of the launch.

    The row of `host_tree` is that of the launching call, else of the op that launched the event; -1: no launch is
    known.

    Args:
        linked: one rank.
        options: see `StepOptions`.
    """
    events = device_events(linked)
    if options is not None:
        events = by_launch(events, linked, options)
    events = events.with_columns(pl.coalesce("call_event", "op_event").alias("launcher"))
    rows = rows_of_events(linked.host_tree.get_column("event_id"), events.get_column("launcher"))
    return events.with_columns(rows.fill_null(-1))


def host_times(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The host events in the order of `host_tree`: ts_ns, inclusive_ns, exclusive_ns; step and in_means by starts.

    Args:
        linked: one rank.
        options: see `StepOptions`.
    """
    names = host_names(linked).select("ts_ns")
    times = names.with_columns(linked.host_tree.select("inclusive_ns", "exclusive_ns").get_columns())
    return by_start(times, linked, options)
