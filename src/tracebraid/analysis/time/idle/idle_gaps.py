"""When is the device idle, what ended each gap, and what did the host do meanwhile?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.idle.codes import in_codes
from tracebraid.analysis.time.idle.launches import gap_launches
from tracebraid.analysis.time.idle.named_segments import CONTEXT, named_segments
from tracebraid.model.answers import IDLE_GAPS
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["idle_gaps"]

_PART = ["device", "window", "part"]


def idle_gaps(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The gaps of each device in parts with one cause, in the order of time: `model.answers.IDLE_GAPS`.

    A part has the activity that took the most of the host's time in it, and of that the op, annotation, module and
    frame that together took the most. `idle_causes` and `idle_blame` count every nanosecond for what it was.

    Args:
        linked: one rank.
        per_step: the gaps in each step, cut at its start and end, instead of those of the whole trace.
        annotation: what marks a step, see `steps`.
    """
    segments = named_segments(linked, annotation, per_step)
    if segments.is_empty():
        return IDLE_GAPS.empty()
    parts = segments.group_by(_PART, maintain_order=True).agg(
        pl.col("step", "row", "gap", "gap_ns", "size", "sync_call", "cause").first(),
        pl.col("start_ns").min(),
        pl.col("dur_ns").sum(),
    )
    frame = (
        parts.join(_longest(segments), on=_PART, how="left", maintain_order="left")
        .with_columns(in_codes())
        .pipe(lambda parts: pl.concat([parts, _next(linked, annotation)[parts.get_column("row").to_numpy()]], how="horizontal"))
    )
    return answer(IDLE_GAPS, frame.sort("window", maintain_order=True), linked, annotation)


def _longest(segments: pl.DataFrame) -> pl.DataFrame:
    """Of each part the longest activity, `host_activity_ns`, and of that the longest context."""
    contexts = segments.group_by(*_PART, "activity", *CONTEXT, maintain_order=True).agg(pl.col("dur_ns").sum())
    longest = (
        contexts.with_columns(pl.col("dur_ns").sum().over(*_PART, "activity").alias("activity_ns"))
        .sort("activity_ns", "activity", "dur_ns", descending=[True, False, True], maintain_order=True)
        .unique(_PART, keep="first", maintain_order=True)
    )
    known = pl.col("activity").is_not_null()
    return longest.select(
        *_PART,
        "activity",
        pl.when(known).then("activity_ns").alias("host_activity_ns"),
        as_text(*CONTEXT),
    )


def _next(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Of each row of `gap_launches` what ended it: `next_event`, `next_name`, `next_stream`, `next_call`, `next_op`."""
    gaps = gap_launches(linked, annotation)
    lanes = linked.timeline.lanes.select(pl.coalesce(as_text("tid"), "tid_text")).to_series()
    names = linked.timeline.events.get_column("name")
    return pl.DataFrame(
        [
            gaps.get_column("next_event"),
            names.gather(gaps.get_column("next_event")).alias("next_name"),
            lanes.gather(gaps.get_column("next_lane")).alias("next_stream"),
            names.gather(gaps.get_column("call_event")).alias("next_call"),
            names.gather(gaps.get_column("op_event")).alias("next_op"),
        ]
    )
