"""`Engine`: how work over many ranks runs. In this process if nothing else is asked; others are in `engine`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from tracebraid.errors import InputError
from tracebraid.model.rank_files import Progress, RankFiles, RanksDone

__all__ = ["Engine", "InProcess", "LoadingWork", "Outcome", "RankCost", "RankWork", "ScalableWork"]

T = TypeVar("T")
LoadingT = TypeVar("LoadingT", bound="LoadingWork")

RankWork: TypeAlias = Callable[[RankFiles, Progress | None], T]
"""Reads a rank and answers; it has no effect but its answer and new files, and may run in another process."""


@dataclass(frozen=True)
class RankCost:
    """What the work on a rank takes, as estimated: an engine decides by it how many ranks run at once, and where.

    Args:
        peak_bytes: the most memory, above that of Python and the libraries.
        seconds: the time on one core.
    """

    peak_bytes: int
    seconds: float


@runtime_checkable
class ScalableWork(Protocol):
    """Work, or a loader of ranks, that knows what a rank takes, and that can be kept to some of the cores."""

    def cost(self, files: RankFiles) -> RankCost | None:
        """What a rank takes, as estimated from its files; None where nothing is known of them."""
        ...

    def with_processes(self, processes: int) -> Any:
        """The same work, which decodes a file with so many processes at most."""
        ...


@dataclass(frozen=True, eq=False)
class LoadingWork:
    """Work that opens ranks, and takes what opening them takes.

    Args:
        load: opens a rank.
    """

    load: RankWork[Any]

    def cost(self, files: RankFiles) -> RankCost | None:
        """See `ScalableWork`."""
        return self.load.cost(files) if isinstance(self.load, ScalableWork) else None

    def with_processes(self: LoadingT, processes: int) -> LoadingT:
        """See `ScalableWork`."""
        if not isinstance(self.load, ScalableWork):
            return self
        return replace(self, load=self.load.with_processes(processes))


@dataclass(frozen=True, eq=False)
class Outcome(Generic[T]):
    """What came of the work on a rank: an answer, or an error.

    Args:
        files: the rank's files.
        answer: what the work returned; None where it failed.
        error: why it failed; None where it did not.
    """

    files: RankFiles
    answer: T | None = None
    error: InputError | None = None

    def value(self) -> T:
        """The answer.

        Raises:
            InputError: the work failed.
        """
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]


class Engine(Protocol):
    """How work over many ranks runs: here, in a pool of processes, on a cluster.

    Order and content of the outcomes are the same with every engine.
    """

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """What comes of the work on each rank, in the order in which they are given.

        Args:
            work: is done for each rank, and may be pickled by cloudpickle.
            ranks: the files of each.
            progress: is called with the share of all work that is done, 0 to 1, from any thread.

        Raises:
            TracebraidError: the work raised one that is not about the rank's files, or the engine cannot go on.
        """
        ...


@dataclass(frozen=True)
class InProcess:
    """Runs the work here, rank by rank; each is done when its outcome is asked for."""

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`."""
        report = progress or _silent
        for number, files in enumerate(ranks):
            of_rank = partial(_report, report, number, len(ranks))
            try:
                outcome = Outcome(files, work(files, of_rank))
            except InputError as error:
                outcome = Outcome(files, error=error)
            of_rank(1.0)
            yield outcome


def _report(progress: Progress, done: int, ranks: int, share: float) -> None:
    """Convert the progress of a rank into that of all."""
    progress(RanksDone((done + share) / ranks, done + (share == 1.0), ranks))


def _silent(_: float) -> None:
    """Progress that nobody looks at."""
