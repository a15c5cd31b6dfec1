"""`Matching`: how an Execution Trace and a Kineto trace are to be matched."""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.errors import ArgumentError

__all__ = ["BEST", "MATCHES", "MEDIAN", "Matching"]

MATCHES = ("auto", "exact", "approximate")
"""`exact`: by ids, where names confirm them; `approximate`: by alignment; `auto`: exact where ids are proven."""

BEST, MEDIAN = "best", "median"


@dataclass(frozen=True)
class Matching:
    """How to match.

    Args:
        match: one of `MATCHES`.
        annotation: what marks an iteration where one trace holds more of them than the other; None: found out.
        iteration: which iteration of the longer trace: `best`, the one that agrees best; `median`, of those that
            agree as well the one of median length; or a number, that of its annotation (`ProfilerStep#7`), else
            its index from 0.

    Raises:
        ArgumentError: there is no such way to match, or no such iteration.
    """

    match: str = "auto"
    annotation: str | None = None
    iteration: str | int = BEST

    def __post_init__(self) -> None:
        if self.match not in MATCHES:
            raise ArgumentError(f"there is no match {self.match!r}; there is {', '.join(MATCHES)}")
        if isinstance(self.iteration, str) and self.iteration not in (BEST, MEDIAN):
            raise ArgumentError(
                f"there is no iteration {self.iteration!r}; give {BEST}, {MEDIAN} or a number"
            )

    @property
    def chooses_iteration(self) -> bool:
        """Whether an iteration was asked for."""
        return self.annotation is not None or self.iteration != BEST
