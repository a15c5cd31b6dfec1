"""Which graphs are replayed, how often, and how much of the device's time do they take?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.device.graph_events import graph_events, has_graphs
from tracebraid.analysis.step_rows import NO_STEP
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_of_moments, step_windows
from tracebraid.model.answers.inference import GRAPH_REPLAYS
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["graph_replays"]


def graph_replays(
    linked: LinkedTrace, annotation: str = PROFILER_STEP, per_step: bool = False
) -> pl.DataFrame:
    """Graphs and their replays, the most device time first: `model.answers.GRAPH_REPLAYS`.

    A replay is a call whose name ends in `GraphLaunch` before suffixes, with the device events of its correlation;
    a call without any counts as a replay of 0 events. Where the call is not in the trace, events with a graph's id
    and the same correlation are a replay.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: rows for each step in which they were launched, instead of over all.
    """
    if not has_graphs(linked):
        return GRAPH_REPLAYS.empty()
    replays = _replays(linked, annotation)
    device = device_events_by_step(linked, annotation).select("step", "dur_ns")
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
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(GRAPH_REPLAYS, frame, linked, annotation))
    )


def _replays(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
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
    with_step = step_of_moments(calls, step_windows(linked, annotation)).drop("ts_ns")
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
