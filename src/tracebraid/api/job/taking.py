"""What questions about a whole job take of each rank, which is read once, by keys under which a job keeps it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import polars as pl

from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.needs import lacking_of
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.api.job.readable_ranks import ask_ranks
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job, Questions, answers_in_order, answers_of
from tracebraid.model.linked_ranks import Gather, RankParts, gather_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.rank_files import Progress

__all__ = [
    "facts_of_rank",
    "gather_questions",
    "gathering",
    "lacking_questions",
    "parts_of",
    "take",
    "take_readable",
]


def gathering(gather: Gather, annotation: str) -> Callable[[LinkedTrace], pl.DataFrame]:
    """A function as a question of a linked trace, whose steps an annotation marks."""
    return partial(_gathered, gather, annotation)


def gather_questions(annotation: str, gathers: Iterable[Gather]) -> Questions:
    """What is asked of a rank to link it with the others, and what else is taken of it.

    Args:
        annotation: what marks a step.
        gathers: what is taken beside its members.
    """
    asked = {(gather, annotation): gathering(gather, annotation) for gather in (members, *gathers)}
    return {rank_facts: facts_of_rank, **asked}


def facts_of_rank(linked: LinkedTrace) -> pl.DataFrame:
    """`rank_facts` of a rank, which a store may have already."""
    return linked.answered("rank_facts", rank_facts)


def lacking_questions(annotation: str, needs: tuple[Need, ...]) -> Questions:
    """What is asked of a rank to learn what it lacks."""
    return {(lacking_of, needs, annotation): partial(_lacking, needs, annotation)}


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


def take_readable(
    job: Job, ranks: list[int], questions: Questions, update: Progress, findings: list[Finding]
) -> Iterator[dict[Hashable, Any]]:
    """The answers of each rank, by the keys of the questions; a rank that cannot be read is left out.

    Args:
        job: the ranks.
        ranks: those that are asked.
        questions: what is asked of each.
        update: is called with the progress over all ranks, 0 to 1.
        findings: what was noticed in the traces of each rank is added, and a finding for each that is left out.

    Raises:
        InputError: none of several ranks can be read, or the only one cannot.
    """
    asked = partial(answers_in_order, questions=tuple(questions.values()))
    for values in ask_ranks(job, ranks, asked, update, findings):
        yield dict(zip(questions, values, strict=True))


def _gathered(gather: Gather, annotation: str, linked: LinkedTrace) -> pl.DataFrame:
    return gather_of(linked, gather, annotation)


def _lacking(needs: tuple[Need, ...], annotation: str, linked: LinkedTrace) -> tuple[Need, ...]:
    return lacking_of(needs, linked, annotation)
