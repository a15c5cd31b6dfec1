"""The launch of what ended each gap: its call, its thread, and whether it had to wait for another stream."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.busy_events import HOST_DEVICE, busy_events
from tracebraid.analysis.time.idle.gaps import device_gaps
from tracebraid.analysis.time.idle.name_search import names_match
from tracebraid.analysis.time.idle.stream_waits import stream_waits
from tracebraid.model.category import Role
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["gap_launches"]

_GRAPH_LAUNCH = "GraphLaunch"
"""Part of the names of the calls that launch a graph: `cudaGraphLaunch`, `cuGraphLaunch`, `hipGraphLaunch`."""

_BOUND_BY_WAIT = (pl.col("stream_end_ns").is_null() | (pl.col("stream_end_ns") < pl.col("start_ns"))) & (
    pl.col("until_ns").is_null() | (pl.col("until_ns") >= pl.col("start_ns"))
)
"""Whether what ran last before the gap is not the stream's own work, but what the wait is for, if that is known."""


def gap_launches(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The gaps with the launch of their next event, a row each and in their order.

    Columns: those of `device_gaps`; `call_event`, `op_event`, `call_start_ns`, `call_end_ns`; `next_lane`, the lane
    of the next event; `thread`, that of the call, else of the op, and on the host of the next event itself; `is_graph`, a graph was launched; `continues`, the call launched earlier work too; `is_older`,
    no call is in the trace, nor for anything before on the stream, but for later work: a stream keeps the order
    of its launches, so it was launched before the first call in the trace, and that before the gap; `waits`, it waited
    for another stream, and `until_ns`, when what it waited for ended.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_gap_launches, annotation)


def _gap_launches(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    events = linked.timeline.events
    has_call = pl.col("call_event").is_not_null()
    older = has_call.any().over("lane") & ~has_call.cum_max().over("lane")
    end = (pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).over("lane")
    launches = (
        busy_events(linked)
        .sort("ts_ns", "event_id")
        .select(
            pl.col("event_id").alias("next_event"),
            "call_event",
            "op_event",
            pl.col("lane").alias("next_lane"),
            pl.col("ts_ns").alias("next_ns"),
            end.alias("stream_end_ns"),
            older.alias("is_older"),
        )
    )
    first = launches.filter(pl.col("call_event").is_not_null()).group_by("call_event").agg(
        pl.col("next_ns").min().alias("first_ns")
    )
    calls = events.select(
        pl.col("event_id").alias("call_event"),
        pl.col("lane").alias("call_lane"),
        pl.col("ts_ns").alias("call_start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("call_end_ns"),
        "name",
    )
    ops = events.select(pl.col("event_id").alias("op_event"), pl.col("lane").alias("op_lane"))
    waits = stream_waits(linked).select(
        pl.col("event_id").alias("next_event"), "until_ns", pl.lit(True).alias("waits")
    )
    on_host = pl.when(pl.col("device") == HOST_DEVICE).then("next_lane")
    found = device_gaps(linked, annotation).join(
        launches, on="next_event", how="left", maintain_order="left"
    )
    for other, key in ((first, "call_event"), (ops, "op_event"), (waits, "next_event")):
        found = found.join(other, on=key, how="left", maintain_order="left")
    needed = found.select("call_event").drop_nulls().unique()
    calls = calls.join(needed, on="call_event", how="semi")
    calls = calls.with_columns(names_match(calls.get_column("name"), _GRAPH_LAUNCH).alias("is_graph"))
    found = found.join(calls, on="call_event", how="left", maintain_order="left")
    return found.select(
        *device_gaps(linked, annotation).columns,
        "call_event",
        "op_event",
        "call_start_ns",
        "call_end_ns",
        "next_lane",
        pl.coalesce("call_lane", "op_lane", on_host).alias("thread"),
        pl.col("is_graph").fill_null(value=False),
        (pl.col("first_ns") < pl.col("next_ns")).fill_null(value=False).alias("continues"),
        (pl.col("is_older") & (pl.col("start_ns") >= _first_call_ns(linked)))
        .fill_null(value=False)
        .alias("is_older"),
        (pl.col("waits") & _BOUND_BY_WAIT).fill_null(value=False).alias("waits"),
        "until_ns",
    )


def _first_call_ns(linked: LinkedTrace) -> int | None:
    start = linked.timeline.of_role(Role.CALL).get_column("ts_ns").to_numpy()
    return int(start.min()) if len(start) else None
