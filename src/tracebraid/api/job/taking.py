"""What questions about a whole job take of each rank, which is read once, by keys under which a job keeps it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import polars as pl

from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.model.job import Job, Questions, answers_of
from tracebraid.model.linked_ranks import Gather, RankParts
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["gather_questions", "gathering", "parts_of", "take"]


def gathering(gather: Gather, annotation: str) -> Callable[[LinkedTrace], pl.DataFrame]:
    """A function as a question of a linked trace, whose steps an annotation marks."""
    return lambda linked: gather(linked, annotation)


def gather_questions(annotation: str, gathers: Iterable[Gather]) -> Questions:
    """What is asked of a rank to link it with the others, and what else is taken of it.

    Args:
        annotation: what marks a step.
        gathers: what is taken beside its members.
    """
    asked = {(gather, annotation): gathering(gather, annotation) for gather in (members, *gathers)}
    return {rank_facts: rank_facts, **asked}


def parts_of(taken: Mapping[Hashable, Any], annotation: str, gathers: Iterable[Gather]) -> RankParts:
    """What is kept of a rank, from the answers to `gather_questions`."""
    gathered = {gather: taken[gather, annotation] for gather in gathers}
    return RankParts(taken[rank_facts], taken[members, annotation], gathered)


def take(traces: LinkedTrace | Job, questions: Questions) -> list[dict[Hashable, Any]]:
    """The answers of each rank, by the keys of the questions; a linked trace is a job of one rank.

    Raises:
        InputError: a file cannot be read.
    """
    if isinstance(traces, LinkedTrace):
        return [answers_of(traces, questions)]
    return list(traces.take(questions))
