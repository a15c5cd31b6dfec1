"""Questions about a whole job: each rank is read once, what they take of it is kept, then the ranks are linked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.needs import lacking
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.analysis import Answer, Need
from tracebraid.model.job import Job
from tracebraid.model.job_analysis import JobAnalysis
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["RankOfJob", "answer_of_job", "answer_of_ranks", "linked_ranks", "rank_of_job"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class RankOfJob:
    """What an analysis of a job takes of a rank.

    Args:
        parts: what is kept of the rank.
        lacks: what the rank lacks for the analysis.
    """

    parts: RankParts
    lacks: tuple[Need, ...]


def linked_ranks(
    traces: LinkedTrace | Job, annotation: str = PROFILER_STEP, gathers: tuple[Gather, ...] = ()
) -> LinkedRanks:
    """The ranks of a job linked with each other, in one pass.

    Args:
        traces: a job; a linked trace is a job of one rank.
        annotation: what marks a step.
        gathers: what is taken of each rank beside its members.

    Raises:
        InputError: a file cannot be read.
    """
    return link_ranks(_each(traces, lambda linked: _parts(linked, annotation, gathers)))


def answer_of_job(analysis: JobAnalysis, traces: LinkedTrace | Job, options: Mapping[str, object]) -> Answer:
    """The answer of an analysis over all ranks, in one pass.

    Raises:
        InputError: a file cannot be read.
        ArgumentError: an option takes no such value.
    """
    ranks = _each(traces, lambda linked: rank_of_job(analysis, linked, options))
    return answer_of_ranks(analysis, ranks, options)[0]


def rank_of_job(analysis: JobAnalysis, linked: LinkedTrace, options: Mapping[str, object]) -> RankOfJob:
    """What an analysis of a job takes of a rank."""
    annotation = str(options.get("annotation", PROFILER_STEP))
    return RankOfJob(_parts(linked, annotation, analysis.gathers), lacking(analysis, linked, annotation))


def answer_of_ranks(
    analysis: JobAnalysis, ranks: list[RankOfJob], options: Mapping[str, object]
) -> tuple[Answer, LinkedRanks]:
    """The answer from what was taken of each rank, and the ranks linked with each other."""
    linked = link_ranks([rank.parts for rank in ranks])
    frame = analysis.answer(linked, **options)
    alone = {Need.SEVERAL_RANKS} & {*analysis.needs, *analysis.uses} if len(ranks) < 2 else set()
    lacks = {rank.parts.facts.item(0, "rank"): (*alone, *rank.lacks) for rank in ranks}
    return Answer(analysis, frame, lacks), linked


def _parts(linked: LinkedTrace, annotation: str, gathers: tuple[Gather, ...]) -> RankParts:
    gathered = {gather: gather(linked, annotation) for gather in gathers}
    return RankParts(rank_facts(linked), members(linked, annotation), gathered)


def _each(traces: LinkedTrace | Job, question: Callable[[LinkedTrace], T]) -> list[T]:
    return [question(traces)] if isinstance(traces, LinkedTrace) else list(traces.each(question))
