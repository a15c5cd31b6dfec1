"""Graphs and their replays, the most device time first."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import NO_STEP, answer
from tracebraid.analysis.device import device_events_by_step, graph_events, has_graphs
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_of_moments, step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Rows, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.category import Role
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does

GRAPH_REPLAYS = Table(
    "graph_replays",
    "One row per graph and launching call: how often it ran and how much of the device's time; the longest first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("api", Kind.TEXT, "the call, such as `cudaGraphLaunch`; null: it is not in the trace"),
        Column("graph_id", Kind.INT, "the graph; null: the trace does not say"),
        Column("kernels_per_replay", Kind.INT, "device events of a replay: graphs without id are told by it"),
        Column("replays", Kind.INT, "how often it was launched"),
        Column("kernels", Kind.INT, "device events of all replays"),
        Column("host_ns", Kind.INT, "duration of the launching calls; null without any"),
        Column("device_ns", Kind.INT, "duration of the device events, summed"),
        Column("mean_device_ns", Kind.FLOAT, "device_ns of a replay"),
        Column(
            "share", Kind.FLOAT, "of the sum of all device events' durations, 0 to 1; null: there is none"
        ),
        DOUBTFUL,
    ),
)


@analysis(
    GRAPH_REPLAYS,
    Family.INFERENCE,
    needs=(Need.GRAPH_LAUNCHES,),
    shown="api graph_id replays device_ns share mean_device_ns kernels_per_replay host_ns",
    formula=("A replay is a call that launches a graph, with all device events of its correlation."),
    on_page=OnPage(Rows.TABLE_ROWS, by=("device_ns",)),
)
def graph_replays(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """Which graphs are replayed, and how often?

    Graphs and their replays, the most device time first.

    A replay is a call whose name ends in `GraphLaunch` before suffixes, with the device events of its correlation;
    a call without any counts as a replay of 0 events. Where the call is not in the trace, events with a graph's id
    and the same correlation are a replay.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were launched, instead of over all.
    """
    if not has_graphs(linked):
        return GRAPH_REPLAYS.empty()
    replays = _replays(linked)
    device = device_events_by_step(linked).select("step", "dur_ns")
    if not per_step:
        replays, device = replays.with_columns(NO_STEP), device.with_columns(NO_STEP)
    total = device.group_by("step").agg(pl.col("dur_ns").sum().alias("total_ns"))
    device_ns = pl.col("device_ns")
    return (
        replays.group_by("step", "api", "graph_id", "kernels_per_replay")
        .agg(
            pl.len().alias("replays"),
            pl.col("kernels_per_replay").sum().alias("kernels"),
            pl.when(pl.col("host_ns").is_not_null().any()).then(pl.col("host_ns").sum()).alias("host_ns"),
            device_ns.sum(),
        )
        .join(total, on="step", how="left", nulls_equal=True)
        .with_columns(
            (device_ns / pl.col("replays")).alias("mean_device_ns"),
            pl.when(pl.col("total_ns") > 0).then(device_ns / pl.col("total_ns")).alias("share"),
        )
        .sort(["device_ns", "api", "graph_id", "kernels_per_replay"], descending=[True, False, False, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(GRAPH_REPLAYS, frame, linked))
    )


def _replays(linked: LinkedTrace) -> pl.DataFrame:
    """One row per replay: step, api, graph_id, kernels_per_replay, host_ns, device_ns."""
    calls = (
        linked.timeline.of_role(Role.CALL)
        .filter(call_does(as_text("name"), CallAction.LAUNCH_GRAPH))
        .select(
            pl.col("event_id").alias("call_event"),
            as_text("name").alias("api"),
            "ts_ns",
            pl.col("dur_ns").alias("host_ns"),
        )
    )
    with_step = step_of_moments(calls, step_windows(linked)).drop("ts_ns")
    work = [
        pl.col("graph_id").drop_nulls().min(),
        pl.len().cast(pl.Int64).alias("kernels_per_replay"),
        pl.col("dur_ns").sum().alias("device_ns"),
    ]
    events = graph_events(linked)
    by_call = events.filter(pl.col("call_event").is_not_null()).group_by("call_event").agg(work)
    called = with_step.join(by_call, on="call_event", how="left").with_columns(
        pl.col("kernels_per_replay", "device_ns").fill_null(0)
    )
    others = events.filter(pl.col("call_event").is_null()).group_by("correlation").agg(work)
    columns = ["step", "api", "graph_id", "kernels_per_replay", "host_ns", "device_ns"]
    unknown = others.with_columns(
        NO_STEP,
        pl.lit(None, dtype=pl.String).alias("api"),
        pl.lit(None, dtype=pl.Int64).alias("host_ns"),
    )
    return pl.concat([called.select(columns), unknown.select(columns)])
