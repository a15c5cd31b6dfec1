"""Answers about whether the figures of a step can be trusted."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import RANK
from tracebraid.model.column import Column, Kind, Table

__all__ = ["VALIDITY", "Doubt"]


class Doubt(Enum):
    """Why the figures of a step cannot be trusted."""

    DEVICE_EVENTS_MISSING = "device-events-missing"
    EVENT_DOMINATES = "event-dominates"
    DURATION_OVERFLOWS = "duration-overflows"
    OUTLASTS_TRACE = "outlasts-trace"
    STREAM_OVERLAPS = "stream-overlaps"
    LAUNCH_WITHOUT_WORK = "launch-without-work"


VALIDITY = Table(
    "validity",
    "One row per doubt about a step; no row: nothing speaks against its figures.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step; null: the doubt is about what lies in no step"),
        Column("doubt", Kind.TEXT, "a code of `Doubt`"),
        Column("count", Kind.INT, "events that it is about"),
        Column("event_id", Kind.INT, "the first of them; null: they are missing"),
        Column("time_ns", Kind.INT, "device time that it is about; null: unknown"),
    ),
)
