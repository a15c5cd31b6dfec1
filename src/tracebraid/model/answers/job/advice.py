"""What detectors of anti-patterns find, and the advice that follows."""

from __future__ import annotations

from tracebraid.model.answers.columns import RANK
from tracebraid.model.column import Column, Kind, Table

__all__ = ["ADVICE", "ADVICE_BY_STEP", "ADVICE_EVIDENCE", "EVIDENCE"]

_STEP = Column("step", Kind.TEXT, "the step in which it is; null: in none")
_WHERE = (
    Column("op", Kind.TEXT, "the op, or what else of the host did it; null: unknown"),
    Column("shapes", Kind.TEXT, "shapes of its inputs, as the trace has them; null: unknown"),
    Column("call_site", Kind.TEXT, "Python line of the user's program; null: no stack is in the trace"),
    Column(
        "subject",
        Kind.TEXT,
        "what else distinguishes it: the kernel, the group, the copy's kind; or null",
    ),
)
_OCCURRENCE = (
    RANK,
    _STEP,
    Column("start_ns", Kind.INT, "from here"),
    Column("end_ns", Kind.INT, "to here the step could be shorter without it"),
    Column(
        "saving_ns",
        Kind.INT,
        "what the step could be shorter by at most, in that time; never more than it is long",
    ),
    Column("event_id", Kind.INT, "the event that shows it best; null: none does"),
    *_WHERE,
)

EVIDENCE = Table(
    "evidence", "One row per occurrence of an anti-pattern in a rank, in the order of starts.", _OCCURRENCE
)

_ITEM = Column("item", Kind.INT, "number of the advice, from 1, in the order of what it saves")
_DETECTOR = Column("detector", Kind.TEXT, "what found it, by its code (`tracebraid.detectors`)")
_SAVING = Column("saving_ns", Kind.INT, "what it saves at most")
_FURTHER = Column(
    "further_ns", Kind.INT, "what of that no advice before it saves: these add up to at most the step"
)

ADVICE = Table(
    "advice",
    "One row per advice: what a detector found at an op, its shapes and its line; what saves the most first.",
    (
        _ITEM,
        _DETECTOR,
        *_WHERE,
        Column("ranks", Kind.INTS, "ranks on which it is"),
        Column("count", Kind.INT, "occurrences, on all ranks"),
        Column("steps", Kind.INT, "steps in which it is; 0: the trace has none"),
        Column("saving_ns", Kind.INT, "what it saves at most over all steps: of each the rank with the most"),
        Column("saving_per_step_ns", Kind.FLOAT, "that by the number of all steps"),
        Column("share", Kind.FLOAT, "that by the time of all steps; 0 to 1"),
        _FURTHER,
        Column("further_per_step_ns", Kind.FLOAT, "that by the number of all steps"),
        Column(
            "gain_per_step_ns",
            Kind.FLOAT,
            "what a step gains in a replay of the dependency graph without that time; null: not replayed, or unknown",
        ),
    ),
)

ADVICE_BY_STEP = Table(
    "advice_by_step",
    "One row per advice, rank and step in which it is, in the order of advice, ranks and time.",
    (
        _ITEM,
        _DETECTOR,
        RANK,
        _STEP,
        Column("count", Kind.INT, "occurrences"),
        _SAVING,
        _FURTHER,
        Column("step_ns", Kind.INT, "the step's length; without steps the trace's"),
    ),
)

ADVICE_EVIDENCE = Table(
    "advice_evidence",
    "One row per occurrence of an advice that is shown for it, the worst of each first.",
    (_ITEM, _DETECTOR, *_OCCURRENCE),
)
