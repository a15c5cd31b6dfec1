"""Device events as several questions ask for them: by launch, by graph, by stream."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.time.step_windows import BEFORE_ALL_NS, step_of_moments, step_windows
from tracebraid.model.category import Role
from tracebraid.model.device_peaks import WAIT, kind_of_device_event
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import PATTERNS, CallAction, call_does
from tracebraid.model.timeline import Timeline

COMPILING = (
    r"\(dynamo_timed\)|^compile_file$|(^|/)torch/_dynamo/convert_frame\.py|(^|/)torch/_inductor/compile_fx\.py"
    r"|(^|/)triton/compiler/compiler\.py"
)
"""torch.compile's own timers, its Python frames, and Triton's compiler."""


def event_names(linked: LinkedTrace) -> list[str]:
    """The distinct names of all events, in the order in which they first appear."""
    return linked.derived(_event_names)


def _event_names(linked: LinkedTrace) -> list[str]:
    names = linked.timeline.events.select("name").unique(maintain_order=True)
    found: list[str] = names.select(as_text("name")).get_column("name").drop_nulls().to_list()
    return found


def names_match(names: pl.Series, pattern: str) -> pl.Series:
    """Return whether each name matches a regular expression; null does not."""
    distinct = names.unique().drop_nulls()
    found = distinct.filter(distinct.cast(pl.String).str.contains(pattern))
    return names.is_in(found.implode()).fill_null(value=False)


def event_columns(timeline: Timeline, events: pl.Series, **columns: str) -> list[pl.Series]:
    """Columns of the table `events` for some events, each under its keyword; null if the event is null."""
    rows = events.cast(pl.UInt32)
    return [timeline.events.get_column(column)[rows].alias(name) for name, column in columns.items()]


def rows_of_events(events: pl.Series, wanted: pl.Series) -> pl.Series:
    """The row of each wanted event in a table; null for one that is null or not in it."""
    if events.is_empty() or wanted.is_empty():
        return pl.Series("row", [None] * len(wanted), dtype=pl.Int64)
    ids = events.to_numpy()
    sought = (wanted.fill_null(-1) if wanted.null_count() else wanted).to_numpy()
    rows = np.minimum(np.searchsorted(ids, sought), len(ids) - 1)
    return pl.Series("row", rows, dtype=pl.Int64).set(pl.Series(ids[rows] != sought), None)


def fetched(table: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """Take rows of a table by index; null in every column where the index is null."""
    found: pl.DataFrame = table[rows.cast(pl.UInt32)]
    return found


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


def device_events_by_step(linked: LinkedTrace) -> pl.DataFrame:
    """Add `step`, in which the work was launched; null outside all steps, or if the launch is unknown."""
    return linked.derived(_device_events_by_step)


def _device_events_by_step(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked)
    launch = events.select(pl.coalesce("call_event", "op_event")).to_series()
    moments = event_columns(linked.timeline, launch, ts_ns="ts_ns")[0].fill_null(BEFORE_ALL_NS)
    step = step_of_moments(moments.to_frame(), step_windows(linked)).get_column("step")
    return events.with_columns(step)


def graph_events(linked: LinkedTrace) -> pl.DataFrame:
    """Device events of graphs, by the name of their launching call or by the graph's id.

    Columns: event_id, ts_ns, dur_ns, call_event, api (the call's name; null: not in the trace), correlation,
    graph_id and graph_node_id (null: the trace does not say).
    """
    return linked.derived(_graph_events)


def has_graphs(linked: LinkedTrace) -> bool:
    """Return whether a graph was launched, or any work came from one."""
    launched = any(PATTERNS[CallAction.LAUNCH_GRAPH] in name for name in event_names(linked))
    return launched or bool((linked.timeline.device_work.get_column("graph_id").fill_null(0) > 0).any())


def _graph_events(linked: LinkedTrace) -> pl.DataFrame:
    if not has_graphs(linked):
        return pl.DataFrame(schema=_GRAPH_EVENTS_COLUMNS)
    timeline = linked.timeline
    calls = timeline.events.select(pl.col("event_id").alias("call_event"), as_text("name").alias("api"))
    details = timeline.device_work.select(
        "event_id", "correlation", _given("graph_id"), _given("graph_node_id")
    )
    by_call = call_does(pl.col("api"), CallAction.LAUNCH_GRAPH).fill_null(value=False)
    by_id = pl.col("graph_id").is_not_null()
    return (
        device_events(linked)
        .select("event_id", "ts_ns", "dur_ns", "call_event")
        .join(calls, on="call_event", how="left", maintain_order="left")
        .join(details, on="event_id", how="left", maintain_order="left")
        .filter(by_call | by_id)
        .select(*_GRAPH_EVENTS_COLUMNS)
    )


def _given(column: str) -> pl.Expr:
    """An id; writers put 0 if there is none."""
    return pl.when(pl.col(column) > 0).then(pl.col(column)).alias(column)


_GRAPH_EVENTS_COLUMNS = {
    "event_id": pl.Int64,
    "ts_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "call_event": pl.Int64,
    "api": pl.String,
    "correlation": pl.Int64,
    "graph_id": pl.Int64,
    "graph_node_id": pl.Int64,
}


def launch_calls(linked: LinkedTrace) -> pl.DataFrame:
    """For each device event, in the order of `device_events`: `event_id` and of its launch call the following."""
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


def stream_gaps(linked: LinkedTrace) -> pl.DataFrame:
    """`device_events` without those that only wait, by stream and start, and with the gaps on their stream."""
    return linked.derived(_stream_gaps)


def _stream_gaps(linked: LinkedTrace) -> pl.DataFrame:
    columns = device_events(linked).select("event_id", "kind", "lane", "ts_ns", "dur_ns")
    return gaps_of(columns).drop("kind")


def gaps_of(events: pl.DataFrame) -> pl.DataFrame:
    """Select device events other than waits, and add the columns of `stream_gaps`."""
    end = pl.col("ts_ns") + pl.col("dur_ns")
    gap = (pl.col("ts_ns") - pl.col("busy_until_ns")).clip(lower_bound=0)
    return (
        events.filter(pl.col("kind") != WAIT)
        .sort("lane", "ts_ns", "event_id")
        .with_columns(end.cum_max().shift(1).over("lane").alias("busy_until_ns"))
        .with_columns(gap.alias("gap_before_ns"))
        .with_columns(pl.col("gap_before_ns").shift(-1).over("lane").alias("gap_after_ns"))
    )


def stream_names(linked: LinkedTrace) -> pl.Series:
    """The stream of each row of `lanes`, as text: that of the first work on it, else the lane's thread id."""
    return linked.derived(_stream_names)


def _stream_names(linked: LinkedTrace) -> pl.Series:
    timeline = linked.timeline
    work = timeline.device_work.select("event_id", "stream").drop_nulls()
    (lanes,) = event_columns(timeline, work.get_column("event_id"), lane="lane")
    streams = work.select(as_text("stream"), lanes).unique("lane", keep="first")
    thread = pl.coalesce("stream", as_text("tid"), "tid_text", pl.lit("unknown"))
    return (
        timeline.lanes.select("lane", "tid", "tid_text")
        .join(streams, on="lane", how="left", maintain_order="left")
        .select(thread.alias("stream"))
        .to_series()
    )
