"""What changes would bring: times of steps before and after, what was changed, and the paths."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["WHAT_IF_CHANGES", "WHAT_IF_PATHS", "WHAT_IF_STEPS"]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT

WHAT_IF_STEPS = Table(
    "what_if_steps",
    "One row per step, and per step and rank: its time before and after; the rows of the whole job first.",
    (
        Column("step", _TEXT, "the step; null: the whole trace, which has no steps"),
        Column("rank", _INT, "the rank; null: the whole job"),
        Column("before_ns", _INT, "time from the end of the step before to its own; of the first its span"),
        Column("after_ns", _INT, "the same with the changes"),
        Column("gain_ns", _INT, "before_ns - after_ns; below 0: it takes longer"),
        Column("gain", _FLOAT, "gain_ns / before_ns; null: it takes no time"),
        Column("modelled_gain_ns", _INT, "the gain where residuals are those that other steps usually have"),
    ),
)

WHAT_IF_CHANGES = Table(
    "what_if_changes",
    "One row per change, in the order in which they are applied.",
    (
        Column("change", _TEXT, "the change, in the grammar of `--change`"),
        Column("activities", _INT, "activities that it selects"),
        Column("events", _INT, "of these those that are events of the trace"),
        Column("before_ns", _INT, "time that they work themselves, together, when the change is applied"),
        Column("after_ns", _INT, "the same behind it"),
    ),
)

WHAT_IF_PATHS = Table(
    "what_if_paths",
    "One row per kind of segment: its time on the critical paths of all steps before and after; longest first.",
    (
        Column("kind", _TEXT, "what happens (`SegmentKind`)"),
        Column("before_ns", _INT, "time on the critical paths before"),
        Column("after_ns", _INT, "the same with the changes"),
    ),
)
