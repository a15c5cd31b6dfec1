"""`Matched`: what was matched with what, where ids prove no links."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracebraid.model.reason import ChoiceReason
from tracebraid.model.schema import ITERATIONS, NODE_TIMES
from tracebraid.model.sentences import CHOICE_SENTENCES

__all__ = ["ChosenIterations", "Matched"]


@dataclass(frozen=True)
class ChosenIterations:
    """Which iterations of the longer trace were matched.

    Args:
        trace: the longer trace, "Kineto Trace" or "Execution Trace".
        marks: what marks its iterations.
        iterations: how many it has.
        first: name of the first that was matched.
        last: name of the last.
        agreement: share of the shorter trace's ops that have the same name in the same order there, 0 to 1.
        as_good: how many other places agree as well.
        reason: why these were chosen.
    """

    trace: str
    marks: str
    iterations: int
    first: str
    last: str
    agreement: float
    as_good: int
    reason: ChoiceReason

    def __str__(self) -> str:
        """Which ones and why, in a sentence for people."""
        names = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return CHOICE_SENTENCES[self.reason].format(**vars(self), names=names)


@dataclass(frozen=True)
class Matched:
    """How an Execution Trace and a Kineto trace were matched without ids.

    Args:
        agreement: share of the smaller trace's ops in scope that were paired, 0 to 1.
        programs: hash of the names and nesting of the Execution Trace's ops in scope, and of Kineto's. Equal: it is
            the same program, op by op.
        ambiguous: share of them that could be several, and are linked to none, 0 to 1.
        choice: which iterations were matched and why; None where all were.
        iterations: see `model.schema.ITERATIONS`; empty where all were matched.
        node_times: see `model.schema.NODE_TIMES`; empty where Kineto does not hold one iteration several times.
    """

    agreement: float
    programs: tuple[str, str]
    ambiguous: float = 0.0
    choice: ChosenIterations | None = None
    iterations: pl.DataFrame = field(default_factory=ITERATIONS.empty)
    node_times: pl.DataFrame = field(default_factory=NODE_TIMES.empty)

    @property
    def why(self) -> str:
        """Which iterations were matched and why, in a sentence; empty where all were."""
        return "" if self.choice is None else str(self.choice)

    @property
    def is_same_program(self) -> bool:
        """Whether both hold the same ops in the same order and nesting, thread by thread."""
        return self.programs[0] == self.programs[1]
