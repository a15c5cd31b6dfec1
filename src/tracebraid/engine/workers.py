"""`Workers`: where ranks are worked on, however these are reached; and what they report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tracebraid.errors import InputError
from tracebraid.model.rank_files import RankFiles

__all__ = ["Advanced", "Event", "Failed", "Finished", "Lost", "Raised", "Workers"]


@dataclass(frozen=True, eq=False)
class Finished:
    """The work on a rank is done.

    Args:
        number: the rank's index in the run.
        answer: what the work returned.
    """

    number: int
    answer: Any


@dataclass(frozen=True, eq=False)
class Failed:
    """The rank's files cannot be used; the other ranks go on."""

    number: int
    error: InputError


@dataclass(frozen=True, eq=False)
class Raised:
    """The work raised an error that is not about the rank's files: it ends the run."""

    number: int
    error: BaseException


@dataclass(frozen=True)
class Lost:
    """The machine failed, not the work: the rank is tried again.

    Args:
        number: the rank's index in the run.
        why: what happened to its worker, as a clause: `its worker was killed by signal 9`.
    """

    number: int
    why: str


@dataclass(frozen=True)
class Advanced:
    """The share of the work on a rank that is done, 0 to 1."""

    number: int
    share: float


Event: TypeAlias = Finished | Failed | Raised | Lost | Advanced


class Workers(Protocol):
    """Where ranks are worked on. A run submits ranks, waits for what happens, and closes it in the end."""

    def submit(self, number: int, files: RankFiles) -> None:
        """Begin the work on a rank, without waiting for it. A worker that is gone is reported by `wait`.

        Raises:
            EngineError: no worker can be had at all.
        """
        ...

    def wait(self) -> Sequence[Event]:
        """Wait until something happened to a rank that was submitted, and report it; one event at least.

        Raises:
            EngineError: no worker can be had at all.
        """
        ...

    def close(self) -> None:
        """End all work at once; what is not finished is dropped. May be called twice."""
        ...
