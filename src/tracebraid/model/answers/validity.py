"""Answers about whether the figures of a step can be trusted."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import RANK
from tracebraid.model.column import Column, Kind, Table

__all__ = ["VALIDITY", "Doubt"]


class Doubt(Enum):
    """Why the figures of a step cannot be trusted; `analysis/validity/` has a module for each rule."""

    DEVICE_EVENTS_MISSING = "device-events-missing"
    """Most of its launches have no work, or it has far fewer device events than steps with the same ops."""
    LAUNCH_WITHOUT_WORK = "launch-without-work"
    """Some of its launches have no work."""
    DURATION_OVERFLOWS = "duration-overflows"
    """A duration in the file is negative, huge, missing, or no number."""
    OUTLASTS_TRACE = "outlasts-trace"
    """Work of a device, or the step itself, reaches far beyond the time in which the trace was taken."""
    EVENT_DOMINATES = "event-dominates"
    """A single device event, unlike all others, makes nearly all device time."""
    STREAM_OVERLAPS = "stream-overlaps"
    """Work overlaps later work of its stream in a way that the device cannot run."""


VALIDITY = Table(
    "validity",
    "One row per step and doubt about it; no row: nothing speaks against its figures.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step; null: the doubt is about what lies in no step"),
        Column("doubt", Kind.TEXT, "a code of `Doubt`"),
        Column("count", Kind.INT, "events that it is about; of missing ones, how many at least"),
        Column(
            "event_id", Kind.INT, "the earliest of them; null: it is missing, unknown, or the step itself"
        ),
        Column("time_ns", Kind.INT, "sum of their durations; null: unknown"),
    ),
)
