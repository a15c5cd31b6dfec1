"""The ranks of a job, one after the other; a rank that cannot be read does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.job import Job, Progress
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["UNREADABLE", "ask_ranks"]

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
        question: what is asked; what it returns should not hold the linked trace.
        update: is called with the progress over all ranks, 0 to 1.
        findings: a finding is added for each rank that is left out.

    Raises:
        InputError: none of several ranks can be read, or the only one cannot.
    """
    seen: set[int] = set()

    def ask_once(linked: LinkedTrace) -> T:
        if linked.rank in seen:
            problem = f"it is of rank {linked.rank}, as is another file here"
            raise InputError(linked.timeline.path, problem, "Keep the traces of each rank once")
        seen.add(linked.rank)
        return question(linked)

    failed: list[InputError] = []
    for number, rank in enumerate(ranks):
        try:
            answer = next(job.each(ask_once, [rank], partial(_report, update, number, len(ranks))))
        except InputError as error:
            failed.append(error)
            details = {"case": FindingCase.RANK_LEFT_OUT, "rank": rank, "problem": error.problem}
            findings.append(Finding(UNREADABLE, error.path, error.where, details=details))
            continue
        _report(update, number, len(ranks), 1.0)
        yield answer
    if len(failed) == len(ranks):
        raise failed[0]


def _report(update: Progress, done: int, ranks: int, fraction: float) -> None:
    """Convert the progress of a rank into that of all."""
    update((done + fraction) / max(1, ranks))
