"""What detectors of anti-patterns find, and the advice that follows."""

from __future__ import annotations

from tracebraid.model.answers.columns import RANK
from tracebraid.model.column import Column, Kind, Table

__all__ = ["EVIDENCE"]

EVIDENCE = Table(
    "evidence",
    "One row per occurrence of an anti-pattern in a rank, in the order of starts.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step in which it is; null: in none"),
        Column("start_ns", Kind.INT, "from here"),
        Column("end_ns", Kind.INT, "to here the step could be shorter without it"),
        Column(
            "saving_ns",
            Kind.INT,
            "what the step could be shorter by at most, in that time; never more than it is long",
        ),
        Column("event_id", Kind.INT, "the event that shows it best; null: none does"),
        Column("op", Kind.TEXT, "the op, or what else of the host did it; null: unknown"),
        Column("shapes", Kind.TEXT, "shapes of its inputs, as the trace has them; null: unknown"),
        Column("call_site", Kind.TEXT, "Python line of the user's program; null: no stack is in the trace"),
        Column(
            "subject",
            Kind.TEXT,
            "what else distinguishes it: the kernel, the group, the copy's kind; or null",
        ),
    ),
)
