"""`Matching`: how an Execution Trace and a Kineto trace are to be matched."""

from __future__ import annotations

import polars as pl
from msgspec import Struct, field
from msgspec.structs import asdict

from tracebraid.errors import ArgumentError
from tracebraid.model.coverage import ChoiceReason
from tracebraid.model.finding import CHOICE_SENTENCES
from tracebraid.model.schema import ITERATIONS, NODE_TIMES

MATCHES = ("auto", "exact", "approximate")
"""`exact`: by ids, where names confirm them; `approximate`: by alignment; `auto`: exact where ids are proven."""

BEST = "best"
MEDIAN = "median"


class Matching(Struct, frozen=True):
    """Options of matching.

    Args:
        match: one of `MATCHES`.
        annotation: annotation of iterations if one trace has more of them; None: detected.
        iteration: which iteration of the longer trace: `best`, the one that agrees best; `median`, of those that
            agree as well the one of median length; or a number, that of its annotation (`ProfilerStep#7`), else
            its index from 0.

    Raises:
        ArgumentError: the match method or the iteration is unknown.
    """

    match: str = "auto"
    annotation: str | None = None
    iteration: str | int = BEST

    def __post_init__(self) -> None:
        if self.match not in MATCHES:
            raise ArgumentError(f"there is no match {self.match!r}; there are {', '.join(MATCHES)}")
        if isinstance(self.iteration, str) and self.iteration not in (BEST, MEDIAN):
            raise ArgumentError(
                f"there is no iteration {self.iteration!r}; give {BEST}, {MEDIAN} or a number"
            )

    @property
    def chooses_iteration(self) -> bool:
        """Return whether an iteration was requested."""
        return self.annotation is not None or self.iteration != BEST


class ChosenIterations(Struct, frozen=True):
    """Matched iterations of the longer trace.

    Args:
        trace: the longer trace, "Kineto Trace" or "Execution Trace".
        marks: the annotation of its iterations.
        iterations: their number.
        first: name of the first that was matched.
        last: name of the last.
        agreement: share of the shorter trace's ops that have the same name in the same order there, 0 to 1.
        as_good: number of other places that agree equally well.
        reason: the reason for the choice.
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
        """Describe the iterations and the reason in a sentence."""
        names = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return CHOICE_SENTENCES[self.reason].format(**asdict(self), names=names)


class Matched(Struct, frozen=True):
    """Match of an Execution Trace and a Kineto trace without ids.

    Args:
        agreement: share of the smaller trace's ops in scope that were paired, 0 to 1.
        programs: hash of the names and nesting of the Execution Trace's ops in scope, and of Kineto's. Equal: it is
            the same program, op by op.
        ambiguous: share of them that match several, and are not linked, 0 to 1.
        choice: the matched iterations and the reason; None if all were matched.
        iterations: see `model.schema.ITERATIONS`; empty if all were matched.
        node_times: see `model.schema.NODE_TIMES`; empty if Kineto does not hold one iteration several times.
    """

    agreement: float
    programs: tuple[str, str]
    ambiguous: float = 0.0
    choice: ChosenIterations | None = None
    iterations: pl.DataFrame = field(default_factory=ITERATIONS.empty)
    node_times: pl.DataFrame = field(default_factory=NODE_TIMES.empty)

    @property
    def why(self) -> str:
        """Describe the matched iterations and the reason in a sentence; empty if all were matched."""
        return "" if self.choice is None else str(self.choice)

    @property
    def is_same_program(self) -> bool:
        """Return whether both hold the same ops in the same order and nesting, thread by thread."""
        return self.programs[0] == self.programs[1]
