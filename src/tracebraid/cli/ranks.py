"""The ranks of a job, one after the other; a rank that cannot be read does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import typer

from tracebraid.api import Progress
from tracebraid.cli.output import OfAll
from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["UNREADABLE", "ask_ranks", "asked_ranks"]

T = TypeVar("T")

UNREADABLE = FindingCode.RANK_UNREADABLE
"""The code of the finding that a rank's files cannot be read."""


def asked_ranks(job: Job, rank: int | None) -> list[int]:
    """The ranks that are asked: all, or only this one.

    Raises:
        BadParameter: it has no Kineto trace.
    """
    if rank is None:
        return job.ranks
    if rank not in job.ranks:
        have = ", ".join(map(str, job.ranks))
        raise typer.BadParameter(f"{job.path} has no Kineto trace of rank {rank}; it has ranks {have}")
    return [rank]


def ask_ranks(
    job: Job,
    ranks: list[int],
    question: Callable[[LinkedTrace], T],
    update: Progress,
    findings: list[Finding],
) -> Iterator[T]:
    """Ask each rank in one pass; where its files cannot be read, or are another rank's, add a finding and go on.

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

    whole = OfAll(update, len(ranks))
    failed: list[InputError] = []
    for rank in ranks:
        try:
            answer = next(job.each(ask_once, [rank], whole))
        except InputError as error:
            failed.append(error)
            details = {"case": FindingCase.RANK_LEFT_OUT, "rank": rank, "problem": error.problem}
            findings.append(Finding(UNREADABLE, error.path, error.where, details=details))
            continue
        whole.next()
        yield answer
    if len(failed) == len(ranks):
        raise failed[0]
