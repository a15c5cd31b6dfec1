"""When is the device idle, what ended each gap, and what did the host do meanwhile?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device.stream_names import stream_names
from tracebraid.analysis.time.idle.codes import in_codes
from tracebraid.analysis.time.idle.host_context import ACTIVITIES
from tracebraid.analysis.time.idle.idle_parts import CONTEXT, contexts_of_parts, idle_parts
from tracebraid.analysis.time.idle.launches import gap_launches, next_ops
from tracebraid.model.answers import IDLE_GAPS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["idle_gaps"]

_NONE = len(ACTIVITIES)
"""Stands for no activity of the host."""


def idle_gaps(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The gaps of each device in parts with one cause, in the order of time: `model.answers.IDLE_GAPS`.

    A part has the activity that took the most of the host's time in it, and of that the op, annotation, module and
    frame that together took the most. `idle_causes` and `idle_blame` count every nanosecond for what it was.

    Args:
        linked: one rank.
        per_step: the gaps in each step, cut at its start and end, instead of those of the whole trace.
        annotation: what marks a step, see `steps`.
    """
    parts = idle_parts(linked, annotation, per_step)
    if parts.is_empty():
        return IDLE_GAPS.empty()
    of_gap = linked.derived(_next, annotation)[parts.get_column("row").to_numpy()]
    longest = _longest(contexts_of_parts(linked, annotation, per_step), parts.height)
    frame = pl.concat([parts, longest, of_gap], how="horizontal").with_columns(in_codes())
    return answer(IDLE_GAPS, frame.sort("window", maintain_order=True), linked, annotation)


def _longest(contexts: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Of each part the longest activity, `host_activity_ns`, and of that the longest context."""
    index = contexts.get_column("index").to_numpy()
    activity = contexts.get_column("activity").fill_null(_NONE).to_numpy()
    duration = contexts.get_column("dur_ns").to_numpy()
    by_activity = np.zeros((parts, _NONE + 1), dtype=np.int64)
    np.add.at(by_activity, (index, activity), duration)
    longest = by_activity.argmax(axis=1)
    best = np.flatnonzero(activity == longest[index])
    best = best[np.lexsort((-duration[best], index[best]))]
    first = best[np.flatnonzero(np.diff(index[best], prepend=-1))]
    known = pl.col("activity").is_not_null()
    return contexts[first].select(
        "activity",
        pl.when(known).then(pl.Series(by_activity[index[first], activity[first]])).alias("host_activity_ns"),
        *CONTEXT,
    )


def _next(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Of each row of `gap_launches` what ended it: `next_event`, `next_name`, `next_stream`, `next_call`, `next_op`."""
    gaps = gap_launches(linked, annotation)
    names = linked.timeline.events.get_column("name")
    return pl.DataFrame(
        [
            gaps.get_column("next_event"),
            names.gather(gaps.get_column("next_event")).alias("next_name"),
            stream_names(linked).gather(gaps.get_column("next_lane")).alias("next_stream"),
            names.gather(gaps.get_column("call_event")).alias("next_call"),
            next_ops(linked, annotation),
        ]
    )
