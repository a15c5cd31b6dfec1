"""Answers about time."""

from __future__ import annotations

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP
from tracebraid.model.column import Column, Kind, Table

__all__ = ["BREAKDOWN", "STEPS"]

STEPS = Table(
    "steps",
    "One row per step: an occurrence of the annotation that marks steps, on the host.",
    (
        RANK,
        Column("step", Kind.TEXT, "the annotation's name, such as `ProfilerStep#5`"),
        Column("start_ns", Kind.INT, "start"),
        Column("end_ns", Kind.INT, "end"),
        DOUBTFUL,
    ),
)

BREAKDOWN = Table(
    "breakdown",
    "One row per rank, step and device. compute + exposed_communication + exposed_memory + idle = span, exactly.",
    (
        RANK,
        STEP,
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column("start_ns", Kind.INT, "start of the span"),
        Column("span_ns", Kind.INT, "its length: the step, or from the device's first event to its last"),
        Column("compute_ns", Kind.INT, "time in which something computes"),
        Column("communication_ns", Kind.INT, "time in which some communication runs"),
        Column("memory_ns", Kind.INT, "time in which something is copied or filled"),
        Column("overlap_ns", Kind.INT, "communication hidden behind compute"),
        Column("exposed_communication_ns", Kind.INT, "communication while nothing computes"),
        Column("exposed_memory_ns", Kind.INT, "copies while nothing computes or communicates"),
        Column("idle_ns", Kind.INT, "time in which none of the three runs"),
        DOUBTFUL,
    ),
)
