"""`RankFiles`: the files of one rank; `Progress`, `RanksDone`: how far something is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Progress", "RankFiles", "RanksDone"]

Progress: TypeAlias = Callable[[float], None]
"""Is called with the progress so far, 0 to 1."""


@dataclass(frozen=True)
class RankFiles:
    """The files of one rank.

    Args:
        rank: the rank.
        kineto: path of the Kineto trace; None where there is none.
        et: path of the Execution Trace; None where there is none.
    """

    rank: int
    kineto: str | None
    et: str | None


class RanksDone(float):
    """A share of the work on several ranks, 0 to 1, that knows how many of them are done.

    Who wants the share alone takes it as the number that it is.

    Args:
        share: the share of all work.
        done: how many ranks are done.
        ranks: of how many.
    """

    done: int
    ranks: int

    def __new__(cls, share: float, done: int, ranks: int) -> RanksDone:
        """The share, with the counts."""
        made = super().__new__(cls, share)
        made.done, made.ranks = done, ranks
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return RanksDone, (float(self), self.done, self.ranks)
