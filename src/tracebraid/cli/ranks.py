"""The ranks of a job, one after the other; a rank that cannot be read does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from tracebraid.api import Progress
from tracebraid.cli.output import OfAll
from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["UNREADABLE", "ask_ranks"]

T = TypeVar("T")

UNREADABLE = "rank-unreadable"
"""The code of the finding that a rank's files cannot be read."""


def ask_ranks(
    job: Job,
    ranks: list[int],
    question: Callable[[LinkedTrace], T],
    update: Progress,
    findings: list[Finding],
) -> Iterator[T]:
    """Ask each rank in one pass; where its files cannot be read, add a finding and go on.

    Raises:
        InputError: none of several ranks can be read, or the only one cannot.
    """
    whole = OfAll(update, len(ranks))
    failed: list[InputError] = []
    for rank in ranks:
        try:
            answer = next(job.each(question, [rank], whole))
        except InputError as error:
            failed.append(error)
            findings.append(
                Finding(UNREADABLE, f"rank {rank} is left out: {error.problem}", error.path, error.where)
            )
            continue
        whole.next()
        yield answer
    if len(failed) == len(ranks):
        raise failed[0]
