"""Gaps: what a trace of a rank shows not at all, or not as it was; and what cannot be known for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
from msgspec import Struct, field

from tracebraid.errors import InputError
from tracebraid.model.analysis import Need
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

if TYPE_CHECKING:
    from tracebraid.model.linked_trace import LinkedTrace


class Gap(Enum):
    """What makes figures of a rank or of some of its steps unreliable; `analysis/validity.py` measures it.

    The worst come first.

    Attributes:
        code: its finding, which has the sentence and the advice.
        hides: data that the trace does not have where the gap is over all steps: what needs it is not answered.
    """

    code: FindingCode
    hides: frozenset[Need]

    DEVICE_EVENTS_MISSING = (
        FindingCode.DEVICE_EVENTS_MISSING,
        Need.DEVICE_WORK,
        Need.SYNC_EVENTS,
        Need.GRAPH_LAUNCHES,
        Need.DEVICE_PEAKS,
        Need.COMMUNICATION,
        Need.COLLECTIVES,
    )
    NEVER_ENDED = FindingCode.NEVER_ENDED
    COMMUNICATION_UNSEEN = FindingCode.COMMUNICATION_UNSEEN
    """Of the trace, not of its steps: what they compute is as it was."""
    LAUNCH_WITHOUT_WORK = FindingCode.LAUNCH_WITHOUT_WORK
    DURATION_OVERFLOWS = FindingCode.DURATION_OVERFLOWS
    OUTLASTS_TRACE = FindingCode.OUTLASTS_TRACE
    EVENT_DOMINATES = FindingCode.EVENT_DOMINATES
    STREAM_OVERLAPS = FindingCode.STREAM_OVERLAPS

    def __new__(cls, code: FindingCode, *hides: Need) -> Gap:
        """The member of a finding, whose code is its value."""
        gap = object.__new__(cls)
        gap._value_ = code.value
        gap.code, gap.hides = code, frozenset(hides)
        return gap


class FoundGap(Struct, frozen=True):
    """A gap of a rank.

    Args:
        gap: what it is.
        rank: the rank.
        path: the trace.
        steps: the steps that it is in, in order; None for what lies in no step.
        of_steps: the number of steps of the trace; 0: it is about no steps.
        count: events that it is about.
        details: of its sentence.
    """

    gap: Gap
    rank: int
    path: str
    steps: tuple[str | None, ...]
    of_steps: int
    count: int
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Return whether it is over all steps; without steps, over the trace."""
        return sum(step is not None for step in self.steps) == self.of_steps

    @property
    def finding(self) -> Finding:
        """It as a finding."""
        return Finding.of(self.gap.code, self.path, self.where(), self.count, **self.details)

    def where(self) -> str:
        """The steps that it is in, for people; "" in a trace without steps."""
        steps = [step for step in self.steps if step is not None]
        if not self.of_steps:
            return ""
        if not steps:
            return "outside of steps"
        if self.is_whole:
            return "all steps"
        return (
            steps[0]
            if len(steps) == 1
            else f"{len(steps):,} of {self.of_steps:,} steps, the first {steps[0]}"
        )


UNSEEN = pl.Schema({"world": pl.Int64(), "share": pl.Float64(), "kernel": pl.String(), "count": pl.Int64()})
"""Columns of what is stored about `COMMUNICATION_UNSEEN`: the details of its finding, and its count."""

Judge: TypeAlias = "Callable[[LinkedTrace], tuple[FoundGap, ...]]"
"""Finds the gaps of a rank."""


def is_hidden(need: Need, gaps: Iterable[FoundGap]) -> bool:
    """Return whether gaps hide data: whether one of them that does is over all steps of its rank."""
    return any(need in found.gap.hides for found in gaps if found.is_whole)


def gaps_of_rank(linked: LinkedTrace) -> tuple[FoundGap, ...]:
    """The gaps of a rank, as a question to it."""
    return linked.gaps


def refuse_lost_work(gaps: Iterable[FoundGap]) -> None:
    """Refuse ranks that lost the work of a device in all steps: what bounds them is not known.

    Raises:
        InputError: a gap hides device work.
    """
    for found in gaps:
        if is_hidden(Need.DEVICE_WORK, [found]):
            finding = found.finding
            raise InputError(found.path, finding.message, finding.code.advice)
