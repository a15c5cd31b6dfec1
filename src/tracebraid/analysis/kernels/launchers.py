"""What launched the device's time: ops, annotations, graphs, or nothing that the trace knows?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device_events import device_events, device_events_by_step
from tracebraid.analysis.kernels.graph_nodes import GRAPH_LAUNCH
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import LAUNCHERS, Launcher
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["launchers"]


def launchers(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The device's time by what launched it: `model.answers.LAUNCHERS`.

    Each device event counts once, by the first of these: `graph`, a call that launches a graph; `op`, an operator
    that directly encloses the launching call; `annotation`, an annotation there; `call`, a call outside of both;
    `unknown`, no launch is in the trace.

    Args:
        linked: one rank.
        per_step: rows for each step in which the work was launched, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    if per_step:
        events = device_events_by_step(linked, annotation)
    else:
        events = device_events(linked).with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    if events.is_empty():
        return LAUNCHERS.empty()
    order = [launcher.value for launcher in Launcher]
    return (
        events.with_columns(_launcher(linked, events))
        .group_by("step", "launcher")
        .agg(pl.len().alias("kernels"), pl.col("dur_ns").sum().alias("device_ns"))
        .with_columns(
            (pl.col("device_ns") / pl.col("device_ns").sum().over("step")).fill_nan(0.0).alias("share"),
        )
        .sort(pl.col("launcher").cast(pl.Enum(order)))
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(LAUNCHERS, frame, linked, annotation))
    )


def _launcher(linked: LinkedTrace, events: pl.DataFrame) -> pl.Series:
    host = linked.timeline.events
    calls = host.select(pl.col("event_id").alias("call_event"), as_text("name").alias("call"))
    ops = host.select(pl.col("event_id").alias("op_event"), as_text("category").alias("op"))
    found = events.select("call_event", "op_event").join(
        calls, on="call_event", how="left", maintain_order="left"
    )
    found = found.join(ops, on="op_event", how="left", maintain_order="left")
    launcher = (
        pl.when(pl.col("call").str.contains(GRAPH_LAUNCH, literal=True))
        .then(pl.lit(Launcher.GRAPH.value))
        .when(pl.col("op").is_in(categories_of(Role.OP)))
        .then(pl.lit(Launcher.OP.value))
        .when(pl.col("op_event").is_not_null())
        .then(pl.lit(Launcher.ANNOTATION.value))
        .when(pl.col("call_event").is_not_null())
        .then(pl.lit(Launcher.CALL.value))
        .otherwise(pl.lit(Launcher.UNKNOWN.value))
    )
    return found.select(launcher.alias("launcher")).to_series()
