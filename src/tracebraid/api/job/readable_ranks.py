"""The ranks of a job, asked in one pass; a rank that cannot be read does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from tracebraid.errors import InputError
from tracebraid.model.engine import Outcome
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rank_files import Progress, claimed_twice

__all__ = ["UNREADABLE", "ReadableRanks", "ask_ranks", "ask_ranks_silently", "left_out"]

T = TypeVar("T")

UNREADABLE = FindingCode.RANK_UNREADABLE
"""The code of the finding that a rank's files cannot be read."""


def ask_ranks(
    job: Job,
    ranks: list[int],
    question: Callable[[LinkedTrace], T],
    update: Progress,
    findings: list[Finding],
) -> Iterator[T]:
    """Ask each rank in one pass; where its files cannot be read, or are another rank's, add a finding and go on.

    Args:
        job: the ranks.
        ranks: those that are asked.
        question: what is asked. It may run in another process, and has no effect but what it returns, which should not
            hold the linked trace, or new files.
        update: is called with the progress over all ranks, 0 to 1.
        findings: what was noticed in the traces of each rank is added, and a finding for each that is left out.

    Raises:
        InputError: none of several ranks can be read, or the only one cannot.
    """
    asking = ReadableRanks(job, tuple(ranks), update, findings)
    yield from asking.ask(ranks, question)
    yield from asking.ask_disputed(question)


def ask_ranks_silently(
    job: Job,
    ranks: list[int],
    question: Callable[[LinkedTrace], T],
    update: Progress,
    findings: list[Finding],
) -> Iterator[T]:
    """As `ask_ranks`, of a question that answers with what was noticed, or to which that means nothing."""
    asking = ReadableRanks(job, tuple(ranks), update, findings, noticed=False)
    yield from asking.ask(ranks, question)
    yield from asking.ask_disputed(question)


@dataclass
class ReadableRanks:
    """Ranks of a job that are asked in one pass, some of them before others.

    Args:
        job: the ranks.
        ranks: all that are asked.
        update: is called with the progress over all ranks, 0 to 1.
        findings: a finding is added for each rank that is left out.
        noticed: whether what was noticed in the traces of each rank is added to the findings, too.
    """

    job: Job
    ranks: tuple[int, ...]
    update: Progress
    findings: list[Finding]
    noticed: bool = True
    _done: int = 0
    _seen: set[int] = field(default_factory=set)
    _disputed: list[tuple[int, int, str]] = field(default_factory=list)
    _failed: list[InputError] = field(default_factory=list)

    def ask(self, ranks: Sequence[int], question: Callable[[LinkedTrace], T]) -> Iterator[T]:
        """The answers of some ranks; who has asked all calls `ask_disputed`."""
        by_path = {files.kineto: files.rank for files in self.job.files if files.rank in self.ranks}
        asked = _Asked(question, self.noticed, by_path)
        update = partial(self._report, self._done, len(ranks))
        for outcome in self.job.outcomes(asked, list(ranks), update):
            yield from self._accepted(outcome)
        self._done += len(ranks)

    def ask_disputed(self, question: Callable[[LinkedTrace], T]) -> Iterator[T]:
        """The answers of traces that say they are of a rank of which another file is named, where that one is not.

        Raises:
            InputError: no rank can be read.
        """
        for rank, stated, path in self._disputed:
            if stated in self._seen:
                self._leave_out(rank, claimed_twice(path, stated))
                continue
            for outcome in self.job.outcomes(_Asked(question, self.noticed), [rank], None):
                yield from self._accepted(outcome)
        if len(self._failed) == len(self.ranks):
            raise self._failed[0]

    def _accepted(self, outcome: Outcome[_OfRank[T]]) -> Iterator[T]:
        error, answer = outcome.error, outcome.answer
        if answer is not None and answer.rank in self._seen:
            error = claimed_twice(answer.path, answer.rank)
        if error is not None:
            self._leave_out(outcome.files.rank, error)
            return
        assert answer is not None, "an outcome is an answer or an error"
        if answer.is_disputed:
            self._disputed.append((outcome.files.rank, answer.rank, answer.path))
            return
        self._seen.add(answer.rank)
        self.findings += answer.findings
        (value,) = answer.values
        del outcome, answer
        yield value

    def _leave_out(self, rank: int, error: InputError) -> None:
        self._failed.append(error)
        self.findings.append(left_out(rank, error))

    def _report(self, done: int, ranks: int, share: float) -> None:
        self.update((done + share * ranks) / max(1, len(self.ranks)))


def left_out(rank: int, error: InputError) -> Finding:
    """The finding that a rank is left out, since it cannot be read."""
    details = {"case": FindingCase.RANK_LEFT_OUT, "rank": rank, "problem": error.problem}
    return Finding(UNREADABLE, error.path, error.where, details=details)


@dataclass(frozen=True, eq=False)
class _OfRank(Generic[T]):
    """What a rank answered, the rank that its trace states, and what was noticed; no value where that is disputed."""

    rank: int
    path: str
    values: tuple[T, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def is_disputed(self) -> bool:
        return not self.values


@dataclass(frozen=True, eq=False)
class _Asked(Generic[T]):
    """The question, and what goes with its answer.

    A trace that states the rank of another file is not asked: what the question writes for it would stand in the place
    of that rank's.

    Args:
        question: what is asked.
        noticed: whether what was noticed goes with the answer.
        by_path: the rank of each Kineto trace, as its name or its head has it.
    """

    question: Callable[[LinkedTrace], T]
    noticed: bool
    by_path: Mapping[str | None, int] = field(default_factory=dict)

    def __call__(self, linked: LinkedTrace) -> _OfRank[T]:
        path, stated = linked.timeline.path, linked.rank
        if self.by_path.get(path, stated) != stated and stated in self.by_path.values():
            return _OfRank(stated, path, ())
        value = self.question(linked)
        return _OfRank(stated, path, (value,), linked.known_findings if self.noticed else ())
