"""What launched the device's time: ops, annotations, graphs, or nothing that the trace knows?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device.launch_calls import launch_calls
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.statistics import share_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import LAUNCHERS, Launcher
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.category import Role, categories_of
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
    events = device_work_of(linked, StepOptions(annotation, per_step))
    if events.is_empty():
        return LAUNCHERS.empty()
    order = [launcher.value for launcher in Launcher]
    return (
        events.with_columns(_launcher(linked, events))
        .group_by("step", "launcher")
        .agg(pl.len().alias("kernels"), pl.col("dur_ns").sum().alias("device_ns"))
        .with_columns(share_of("device_ns").alias("share"))
        .sort(pl.col("launcher").cast(pl.Enum(order)))
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(LAUNCHERS, frame, linked, annotation))
    )


def _launcher(linked: LinkedTrace, events: pl.DataFrame) -> pl.Series:
    """Of each device event; `launch_calls` has them in the same order."""
    launcher = (
        pl.when(call_does(pl.col("call"), CallAction.LAUNCH_GRAPH))
        .then(pl.lit(Launcher.GRAPH.value))
        .when(pl.col("op_category").is_in(categories_of(Role.OP)))
        .then(pl.lit(Launcher.OP.value))
        .when(pl.col("op_event").is_not_null())
        .then(pl.lit(Launcher.ANNOTATION.value))
        .when(pl.col("call_event").is_not_null())
        .then(pl.lit(Launcher.CALL.value))
        .otherwise(pl.lit(Launcher.UNKNOWN.value))
    )
    found = events.select("call_event", "op_event", "op_category", launch_calls(linked).get_column("call"))
    return found.select(launcher.alias("launcher")).to_series()
