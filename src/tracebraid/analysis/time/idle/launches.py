"""The launch of what ended each gap: its call, its thread, and whether it had to wait for another stream."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_names import names_match
from tracebraid.analysis.time.idle.gaps import device_gaps
from tracebraid.analysis.time.idle.stream_waits import stream_waits
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.call_names import PATTERNS, CallAction
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["gap_launches", "next_ops"]

_END_NS = pl.col("ts_ns") + pl.col("dur_ns")

_STREAM_WAS_FREE = pl.col("stream_end_ns").is_null() | (pl.col("stream_end_ns") < pl.col("start_ns"))
_WAIT_WAS_OVER = (pl.col("until_ns") < pl.col("start_ns")).fill_null(value=False)
_WAIT_WENT_ON = (pl.col("until_ns") > pl.col("start_ns")).fill_null(value=False)
_BOUND_BY_WAIT = _WAIT_WENT_ON | (_STREAM_WAS_FREE & ~_WAIT_WAS_OVER)
"""Whether the wait is what kept work from starting: it ended in the gap, or no other work of the stream ran up to the
gap. When a wait ended may not be known."""


def gap_launches(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The gaps with the launch of their next event, a row each and in their order.

    Columns: those of `device_gaps`; `next_lane`, the lane of the next event; `call_event`, `op_event`, `call_start_ns`,
    `call_end_ns`; `thread`, the lane of the call, else of the op, on the host that of the next event; and flags:

    - `is_graph`: the call launched a graph.
    - `continues`: the call launched earlier work of the device too.
    - `is_older`: no call is in the trace, nor for anything before on the stream, but for later work. A stream keeps the
      order of its launches, so it was launched before the first call in the trace, and that before the gap.
    - `waits`: it waited for another stream; `until_ns` is when what it waited for ended, null where not known.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_gap_launches, annotation)


def next_ops(linked: LinkedTrace, annotation: str) -> pl.Series:
    """Of each row of `gap_launches` the name of the op that launched the next event, or that it is on the host."""
    ops = gap_launches(linked, annotation).get_column("op_event")
    return linked.timeline.events.get_column("name").gather(ops).alias("next_op")


def _gap_launches(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    gaps = device_gaps(linked, annotation)
    launched = linked.derived(_launched)
    row_of_event = np.full(linked.timeline.events.height + 1, launched.height, dtype=np.int64)
    row_of_event[launched.get_column("next_event").to_numpy()] = np.arange(launched.height)
    rows = row_of_event[gaps.get_column("next_event").fill_null(-1).to_numpy()]
    known = pl.Series(rows).set(pl.Series(rows == launched.height), None)
    found = pl.concat([gaps, launched.drop("next_event").select(pl.all().gather(known))], how="horizontal")
    lane = linked.timeline.events.get_column("lane")
    call_lane, op_lane = (lane.gather(found.get_column(name)) for name in ("call_event", "op_event"))
    first_call = _first_call_ns(linked)
    older = (
        pl.col("is_older") & (pl.col("start_ns") >= first_call) if first_call is not None else pl.lit(False)
    )
    return found.with_columns(
        pl.coalesce(call_lane, op_lane).alias("thread"),
        pl.col("is_graph").fill_null(value=False),
        pl.col("continues").fill_null(value=False),
        older.fill_null(value=False).alias("is_older"),
        (pl.col("waits") & _BOUND_BY_WAIT).fill_null(value=False).alias("waits"),
    )


def _launched(linked: LinkedTrace) -> pl.DataFrame:
    """The device's events in the order of their starts, with their launches: see `gap_launches`."""
    has_call = pl.col("call_event").is_not_null()
    calls_of_work = device_events(linked).select("event_id", "call_event")
    events = work_events(linked).join(calls_of_work, on="event_id", how="left").sort("ts_ns", "event_id")
    calls = linked.timeline.events.select("name", "ts_ns", "dur_ns").select(
        pl.all().gather(events.get_column("call_event"))
    )
    waits = stream_waits(linked).select("event_id", "until_ns", waits=True)
    found = events.select(
        pl.col("event_id").alias("next_event"),
        pl.col("lane").alias("next_lane"),
        *("call_event", "op_event"),
        _END_NS.cum_max().shift(1).over("lane").alias("stream_end_ns"),
        (has_call.any().over("lane") & ~has_call.cum_max().over("lane")).alias("is_older"),
        (has_call & ~pl.struct("device", "call_event").is_first_distinct()).alias("continues"),
    ).with_columns(
        calls.get_column("ts_ns").alias("call_start_ns"),
        calls.select(_END_NS).to_series().alias("call_end_ns"),
        names_match(calls.get_column("name"), PATTERNS[CallAction.LAUNCH_GRAPH]).alias("is_graph"),
    )
    if waits.is_empty():
        return found.with_columns(waits=pl.lit(False), until_ns=pl.lit(None, dtype=pl.Int64))
    return found.join(waits, left_on="next_event", right_on="event_id", how="left", maintain_order="left")


def _first_call_ns(linked: LinkedTrace) -> int | None:
    timeline = linked.timeline
    start = timeline.events.get_column("ts_ns").to_numpy()[
        timeline.host_calls.get_column("event_id").to_numpy()
    ]
    return int(start.min()) if len(start) else None
