"""`RankFiles`: the files of one rank; `Progress`: how far something is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Progress", "RankFiles"]

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
