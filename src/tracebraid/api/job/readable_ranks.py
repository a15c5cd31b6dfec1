"""The ranks of a job, asked in one pass; a rank that cannot be read does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tracebraid.errors import InputError
from tracebraid.model.engine import Outcome
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rank_files import Progress

__all__ = ["UNREADABLE", "ask_ranks", "ask_ranks_silently"]

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
            hold the linked trace.
        update: is called with the progress over all ranks, 0 to 1.
        findings: what was noticed in the traces of each rank is added, and a finding for each that is left out.

    Raises:
        InputError: none of several ranks can be read, or the only one cannot.
    """
    return _answers(job.outcomes(_Asked(question, True), ranks, update), findings)


def ask_ranks_silently(
    job: Job,
    ranks: list[int],
    question: Callable[[LinkedTrace], T],
    update: Progress,
    findings: list[Finding],
) -> Iterator[T]:
    """As `ask_ranks`, of a question that answers with what was noticed, or to which that means nothing."""
    return _answers(job.outcomes(_Asked(question, False), ranks, update), findings)


def _answers(outcomes: Iterable[Outcome[_OfRank[T]]], findings: list[Finding]) -> Iterator[T]:
    seen: set[int] = set()
    failed: list[InputError] = []
    for outcome in outcomes:
        error, answer = outcome.error, outcome.answer
        if answer is not None and answer.rank in seen:
            problem = f"it is of rank {answer.rank}, as is another file here"
            error = InputError(answer.path, problem, "Keep the traces of each rank once")
        if error is not None:
            failed.append(error)
            details = {
                "case": FindingCase.RANK_LEFT_OUT,
                "rank": outcome.files.rank,
                "problem": error.problem,
            }
            findings.append(Finding(UNREADABLE, error.path, error.where, details=details))
            continue
        assert answer is not None, "an outcome is an answer or an error"
        seen.add(answer.rank)
        findings += answer.findings
        value = answer.value
        del outcome, answer
        yield value
        del value
    if failed and not seen:
        raise failed[0]


@dataclass(frozen=True, eq=False)
class _OfRank(Generic[T]):
    """What a rank answered, with the rank that its trace states, and what was noticed."""

    rank: int
    path: str
    value: T
    findings: tuple[Finding, ...]


@dataclass(frozen=True, eq=False)
class _Asked(Generic[T]):
    """The question, and what goes with its answer."""

    question: Callable[[LinkedTrace], T]
    noticed: bool

    def __call__(self, linked: LinkedTrace) -> _OfRank[T]:
        value = self.question(linked)
        return _OfRank(
            linked.rank, linked.timeline.path, value, linked.known_findings if self.noticed else ()
        )
