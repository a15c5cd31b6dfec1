"""`RankFiles`: the files of one rank; `Progress`, `RanksDone`: how far something is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from tracebraid.errors import InputError

Progress: TypeAlias = Callable[[float], None]
"""Callback for progress, 0 to 1."""


def claimed_twice(path: str, rank: int) -> InputError:
    """Make the error for a trace that states the rank of a trace read before."""
    problem = f"it is of rank {rank}, as is another file here"
    return InputError(path, problem, "Keep the traces of each rank once")


class RankFiles(Struct, frozen=True):
    """The files of one rank.

    Args:
        rank: the rank.
        kineto: path of the Kineto trace; None if there is none.
        et: path of the Execution Trace; None if there is none.
        label: what the pids of the rank begin with in a Kineto trace of several ranks; "" in one of its own.
    """

    rank: int
    kineto: str | None
    et: str | None
    label: str = ""


class RanksDone(float):
    """Finished share of the work on several ranks, 0 to 1, with the number of finished ranks.

    It is itself the number of the share.

    Args:
        share: the share of all work.
        done: number of finished ranks.
        ranks: total number of ranks.
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


def of_reading(progress: Progress | None) -> Progress | None:
    """Return the progress of reading a rank, counted as half of the work: how long answering takes is not known."""
    return None if progress is None else lambda share: progress(share / 2)


class GroupOfRank(Struct, frozen=True):
    """A process group that a rank is a member of.

    Args:
        kind: what the group is for, as the program says (`pg_desc`); groups of one kind divide the ranks among them.
        ranks: its global ranks, in its own order.
    """

    kind: str
    ranks: tuple[int, ...]


class RankOrigin(Struct, frozen=True):
    """Origin of a rank: host and groups.

    Args:
        rank: the rank.
        host: the name of its host; "" where it is unknown.
        groups: its process groups, as far as their ranks are listed.
    """

    rank: int
    host: str = ""
    groups: tuple[GroupOfRank, ...] = ()


class SourceFile(Struct, frozen=True):
    """A file that a rank was read from.

    Args:
        path: the path as given.
        size_bytes: its size; None if it was not read.
        mtime_ns: when it was changed last, in ns on the unix clock; None if that is unknown.
        sha256: of its content; None if it was not read, or lies on a server that names its version.
        version: what a server calls this state of it, such as its ETag; None for a file on disk.
    """

    path: str
    size_bytes: int | None = None
    mtime_ns: int | None = None
    sha256: str | None = None
    version: str | None = None
