"""`RankFiles`: the files of one rank; `Progress`, `RanksDone`: how far something is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tracebraid.errors import InputError

__all__ = ["Progress", "RankFiles", "RanksDone", "claimed_twice"]

Progress: TypeAlias = Callable[[float], None]
"""Is called with the progress so far, 0 to 1."""


def claimed_twice(path: str, rank: int) -> InputError:
    """The error that a trace says it is of a rank of which another trace was read already.

    Args:
        path: the trace.
        rank: the rank.
    """
    problem = f"it is of rank {rank}, as is another file here"
    return InputError(path, problem, "Keep the traces of each rank once")


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
