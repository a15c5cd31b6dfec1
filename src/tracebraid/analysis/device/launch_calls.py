"""When did the call that launched each device event run, and what did it cost on the host?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import event_columns
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["launch_calls"]


def launch_calls(linked: LinkedTrace) -> pl.DataFrame:
    """For each device event, in the order of `device_events`: `event_id` and of its launch call the following.

    Returns:
        call_event, call (its name), call_ns (start), launch_ns: its duration, counted once, for the first event of
        those that it launched; 0 for the others. All but `launch_ns` are null without a call.
    """
    return linked.derived(_launch_calls)


def _launch_calls(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked).select("event_id", "call_event", "ts_ns").with_row_index("row")
    in_order = events.sort("ts_ns", "event_id")
    first = np.zeros(events.height, dtype=np.bool_)
    first[in_order.filter(pl.col("call_event").is_first_distinct()).get_column("row").to_numpy()] = True
    call = events.get_column("call_event")
    found = event_columns(linked.timeline, call, call="name", call_ns="ts_ns", launch_ns="dur_ns")
    counted = pl.when(pl.Series(first)).then("launch_ns").fill_null(0)
    return (
        events.select("event_id", "call_event")
        .with_columns(found)
        .with_columns(as_text("call"), counted.alias("launch_ns"))
    )
