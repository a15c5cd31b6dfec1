"""Which rank is worked on when: as many at once as memory and cores allow, their outcomes in the order of ranks."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracebraid.engine.workers import Advanced, Event, Failed, Finished, Lost, Raised, Workers
from tracebraid.errors import LostWorkerError
from tracebraid.model.engine import Outcome
from tracebraid.model.rank_files import Progress, RankFiles, RanksDone

__all__ = ["TRIES", "Limits", "scheduled"]

TRIES = 3
"""How often the work on a rank is begun where its worker is lost: it is tried again twice."""

_AHEAD_PER_WORKER = 4
"""Finished ranks that wait for a slower one before them, for each worker: enough that a rank of four times the usual
time stops no worker, and few enough that their answers stay small beside what a worker holds."""


@dataclass(frozen=True)
class Limits:
    """What may be in flight at once.

    Args:
        budget_bytes: the memory of all ranks in flight together; a single rank is worked on even if it takes more.
        most: the number of ranks in flight, such as the cores.
        ahead: how many ranks beyond the next outcome are begun; None: some for each of `most`.
    """

    budget_bytes: int
    most: int
    ahead: int | None = None

    @property
    def window(self) -> int:
        """How many ranks from the next outcome on are begun."""
        return max(1, _AHEAD_PER_WORKER * self.most if self.ahead is None else self.ahead)


def scheduled(
    ranks: Sequence[RankFiles],
    peaks_bytes: Sequence[int],
    workers: Workers,
    limits: Limits,
    progress: Progress | None = None,
) -> Generator[Outcome[Any], None, None]:
    """The outcome of each rank, in the order in which they are given, while later ranks run ahead.

    An error that is no `InputError` is raised when its rank's outcome is due, as if the ranks ran one after the other;
    ranks after it are not begun. The workers are closed however the run ends, also where the iterator is dropped.

    Args:
        ranks: the files of each.
        peaks_bytes: the memory that the work on each takes, as estimated.
        workers: where they are worked on.
        limits: what may be in flight at once.
        progress: is called with the share of all work that is done, a `RanksDone`.

    Raises:
        EngineError: no worker can be had.
    """
    run = _Run(ranks, peaks_bytes, limits, progress)
    try:
        while run.next_number < len(ranks):
            while (number := run.startable()) is not None:
                workers.submit(number, ranks[number])
            if run.has_next:
                yield run.take_next()
            else:
                for event in workers.wait():
                    run.note(event)
    finally:
        workers.close()


@dataclass
class _Run:
    """The state of a run: what waits, what is in flight, what is finished and not yet taken."""

    ranks: Sequence[RankFiles]
    peaks_bytes: Sequence[int]
    limits: Limits
    progress: Progress | None
    next_number: int = 0
    waiting: list[int] = field(default_factory=list)
    shares: dict[int, float] = field(default_factory=dict)
    """Of the ranks in flight, how far each is."""
    finished: dict[int, Outcome[Any] | BaseException] = field(default_factory=dict)
    losses: dict[int, int] = field(default_factory=dict)
    stop: int = 0
    """Ranks from here on are not begun."""

    def __post_init__(self) -> None:
        self.waiting = list(range(len(self.ranks)))
        self.stop = len(self.ranks)

    @property
    def has_next(self) -> bool:
        return self.next_number in self.finished

    def startable(self) -> int | None:
        """Take the next rank that may begin now; None where none may.

        Always the first that waits, never one behind it that is smaller: a large rank would wait for ever.
        """
        if not self.waiting or len(self.shares) >= self.limits.most:
            return None
        number = self.waiting[0]
        if number >= min(self.stop, self.next_number + self.limits.window):
            return None
        held = sum(map(self._peak_bytes, self.shares))
        if self.shares and held + self._peak_bytes(number) > self.limits.budget_bytes:
            return None
        self.shares[number] = 0.0
        return heapq.heappop(self.waiting)

    def _peak_bytes(self, number: int) -> int:
        """What a rank is expected to take: twice as much after each loss, which is mostly for want of memory."""
        return self.peaks_bytes[number] << self.losses.get(number, 0)

    def note(self, event: Event) -> None:
        """Take in what happened to a rank in flight."""
        number = event.number
        if number not in self.shares:
            return
        if isinstance(event, Advanced):
            self.shares[number] = max(self.shares[number], min(1.0, event.share))
        else:
            del self.shares[number]
        if isinstance(event, Finished):
            self.finished[number] = Outcome(self.ranks[number], event.answer)
        elif isinstance(event, Failed):
            self.finished[number] = Outcome(self.ranks[number], error=event.error)
        elif isinstance(event, Raised):
            self.finished[number] = event.error
            self.stop = min(self.stop, number)
        elif isinstance(event, Lost):
            self._note_loss(event)
        self._report()

    def _note_loss(self, event: Lost) -> None:
        losses = self.losses[event.number] = self.losses.get(event.number, 0) + 1
        if losses < TRIES:
            heapq.heappush(self.waiting, event.number)
            return
        files = self.ranks[event.number]
        error = LostWorkerError.of(files.kineto or files.et or f"rank {files.rank}", event.why, losses)
        self.finished[event.number] = Outcome(files, error=error)

    def take_next(self) -> Outcome[Any]:
        """The next outcome.

        Raises:
            BaseException: the work raised it.
        """
        found = self.finished.pop(self.next_number)
        if isinstance(found, BaseException):
            raise found
        self.next_number += 1
        return found

    def _report(self) -> None:
        if self.progress is not None:
            done, ranks = self.next_number + len(self.finished), len(self.ranks)
            self.progress(RanksDone((done + sum(self.shares.values())) / ranks, done, ranks))
