"""The ranks of a job that a command asks."""

from __future__ import annotations

import typer

from tracebraid.api.job.readable_ranks import UNREADABLE, ask_ranks, ask_ranks_silently
from tracebraid.errors import ArgumentError
from tracebraid.model.job import Job

__all__ = ["UNREADABLE", "ask_ranks", "ask_ranks_silently", "asked_ranks"]


def asked_ranks(job: Job, rank: int | None) -> list[int]:
    """The ranks that are asked: all, or only this one.

    Raises:
        BadParameter: it has no Kineto trace.
    """
    if rank is None:
        return job.ranks
    try:
        job.check_rank(rank)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    return [rank]
