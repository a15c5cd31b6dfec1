"""Which steps a timeline shows, and from when to when."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.timeline_tables import MOST_SLICES
from tracebraid.model.step import PROFILER_STEP

__all__ = ["SliceChoice", "window_of"]


@dataclass(frozen=True)
class SliceChoice:
    """What a timeline shows of a rank.

    Args:
        steps: names of the steps; empty: the whole trace.
        annotation: what marks a step.
        most: slices that may be drawn of the rank.
    """

    steps: tuple[str, ...] = ()
    annotation: str = PROFILER_STEP
    most: int = MOST_SLICES


def window_of(linked: LinkedTrace, choice: SliceChoice) -> tuple[int, int] | None:
    """From when to when, on the rank's own clock: its steps, and the work that was launched in them.

    None where the rank has no such step, or no event at all.
    """
    if not choice.steps:
        return linked.timeline.span_ns
    wanted = pl.col("step").is_in(choice.steps)
    steps = step_windows(linked, choice.annotation).filter(wanted)
    if steps.is_empty():
        return None
    work = device_events_by_step(linked, choice.annotation).filter(wanted)
    ends = [
        steps.select(pl.col("end_ns").max()).item(),
        work.select((pl.col("ts_ns") + pl.col("dur_ns")).max()).item(),
    ]
    return steps.select(pl.col("start_ns").min()).item(), max(end for end in ends if end is not None)
