"""Which steps a timeline shows, and from when to when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.step_times import step_times
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.timeline_tables import MOST_RANKS, MOST_SLICES
from tracebraid.model.step import PROFILER_STEP

__all__ = ["SliceChoice", "chosen_ranks", "typical_step", "window_of"]


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


def typical_step(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> str | None:
    """The step whose length is the median of a rank's steps; None where no annotation marks steps.

    The first step, those of the warm-up and doubtful ones count only where there are no others.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    steps = step_times(linked, annotation).unique("step", keep="first", maintain_order=True)
    if steps.is_empty():
        return None
    usual = steps.slice(1).filter(~pl.col("warmup") & ~pl.col("doubtful"))
    counted = (usual if usual.height else steps).sort("span_ns", maintain_order=True)
    return str(counted.item((counted.height - 1) // 2, "step"))


def chosen_ranks(ranks: Sequence[int], first: Iterable[int] = (), most: int = MOST_RANKS) -> list[int]:
    """The ranks that are drawn, ascending: those that matter, then the lowest ones.

    Args:
        ranks: all ranks.
        first: those that matter, in order: of the critical path, then stragglers.
        most: how many are drawn.
    """
    known = set(ranks)
    wanted = dict.fromkeys([*(rank for rank in first if rank in known), *sorted(ranks)])
    return sorted(list(wanted)[:most])


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
