"""The ranks of a job that a command asks."""

from __future__ import annotations

import typer

from tracebraid.api.job.readable_ranks import UNREADABLE, ask_ranks, ask_ranks_silently
from tracebraid.model.job import Job

__all__ = ["UNREADABLE", "ask_ranks", "ask_ranks_silently", "asked_ranks"]


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
