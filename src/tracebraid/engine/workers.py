"""`Workers`: where ranks are worked on, however these are reached; and what they report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.model.rank_files import RankFiles


class Finished(Struct, frozen=True, eq=False):
    """The work on a rank is done.

    Args:
        number: the rank's index in the run.
        answer: what the work returned.
    """

    number: int
    answer: Any


class Failed(Struct, frozen=True, eq=False):
    """The rank's files cannot be used; the other ranks go on."""

    number: int
    error: InputError


class Raised(Struct, frozen=True, eq=False):
    """The work raised an error that is not about the rank's files: it ends the run."""

    number: int
    error: BaseException


class Lost(Struct, frozen=True):
    """The machine failed, not the work: the rank is retried.

    Args:
        number: the rank's index in the run.
        why: the loss of its worker, as a clause: `its worker was killed by signal 9`.
    """

    number: int
    why: str


class Advanced(Struct, frozen=True):
    """The share of the work on a rank that is done, 0 to 1."""

    number: int
    share: float


Event: TypeAlias = Finished | Failed | Raised | Lost | Advanced


class Workers(Protocol):
    """Place where ranks run. A run submits ranks, waits for events, and closes it at the end."""

    def submit(self, number: int, files: RankFiles) -> None:
        """Begin the work on a rank, without waiting for it. A worker that is gone is reported by `wait`."""
        ...

    def wait(self) -> Sequence[Event]:
        """Wait until something happened to a rank that was submitted, and report it; one event at least."""
        ...

    def close(self) -> None:
        """End all work at once; what is not finished is dropped. May be called twice."""
        ...
