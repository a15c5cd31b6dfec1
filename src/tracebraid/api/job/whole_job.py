"""Questions about a whole job: each rank is read once, what they take of it is kept, then the ranks are linked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.analysis.needs import lacking_of
from tracebraid.api.job.taking import gather_questions, lacking_questions, parts_of, take
from tracebraid.linking.ranks.link_ranks import joined, link_ranks
from tracebraid.model.job import Job, Questions
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Answer, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.step import PROFILER_STEP

__all__ = [
    "RankOfJob",
    "answer_of_job",
    "answer_of_ranks",
    "answers_of_ranks",
    "linked_ranks",
    "linked_with_parts",
    "rank_of_job",
    "ranks_of_job",
]

_NEEDS = tuple(dict.fromkeys(need for analysis in JOB_ANALYSES for need in (*analysis.needs, *analysis.uses)))
"""What any analysis may lack: asked of a rank when it is read first, so that the next analysis need not read it."""


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
    """The ranks of a job linked with each other, in one pass; none of it reads a rank again that was asked before.

    Args:
        traces: a job; a linked trace is a job of one rank.
        annotation: what marks a step.
        gathers: what is taken of each rank beside its members.

    Raises:
        InputError: a file cannot be read.
    """
    questions = gather_questions(annotation, gathers)
    parts = [parts_of(taken, annotation, gathers) for taken in take(traces, questions)]
    return linked_with_parts(traces, annotation, parts)


def linked_with_parts(traces: LinkedTrace | Job, annotation: str, parts: Sequence[RankParts]) -> LinkedRanks:
    """The ranks linked with each other; those of a job once for all questions.

    Args:
        traces: a job, or a linked trace.
        annotation: what marks a step.
        parts: what `Job.take` took of each rank.
    """
    if isinstance(traces, LinkedTrace):
        return link_ranks(parts)
    bare = [RankParts(part.facts, part.members) for part in parts]
    return traces.derived((link_ranks, annotation), lambda: link_ranks(bare)).with_parts(joined(parts))


def answer_of_job(analysis: JobAnalysis, traces: LinkedTrace | Job, options: Mapping[str, object]) -> Answer:
    """The answer of an analysis over all ranks, in one pass.

    Raises:
        InputError: a file cannot be read.
        ArgumentError: an option takes no such value.
    """
    questions = _questions_of(analysis, options)
    ranks = [_rank(analysis, taken, options) for taken in take(traces, questions)]
    linked = linked_with_parts(traces, _annotation(options), [rank.parts for rank in ranks])
    return _answer(analysis, ranks, linked, options)


def rank_of_job(analysis: JobAnalysis, linked: LinkedTrace, options: Mapping[str, object]) -> RankOfJob:
    """What an analysis of a job takes of a rank."""
    questions = _questions_of(analysis, options)
    return _rank(analysis, take(linked, questions)[0], options)


def answer_of_ranks(
    analysis: JobAnalysis, ranks: list[RankOfJob], options: Mapping[str, object]
) -> tuple[Answer, LinkedRanks]:
    """The answer from what was taken of each rank, and the ranks linked with each other."""
    linked = link_ranks([rank.parts for rank in ranks])
    return _answer(analysis, ranks, linked, options), linked


def ranks_of_job(
    analyses: Sequence[JobAnalysis],
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    known: Mapping[Gather, pl.DataFrame] | None = None,
) -> dict[str, RankOfJob]:
    """What several analyses of a job take of a rank, by their names; what they share is taken once.

    Args:
        analyses: the analyses.
        linked: the rank.
        annotation: what marks a step.
        known: what need not be gathered, since it is known.
    """
    given = {(gather, annotation): frame for gather, frame in (known or {}).items()}
    asked = {analysis.name: _questions_of(analysis, _options(analysis, annotation)) for analysis in analyses}
    questions = {key: ask for of_analysis in asked.values() for key, ask in of_analysis.items()}
    taken = take(linked, {key: ask for key, ask in questions.items() if key not in given})[0] | given
    return {analysis.name: _rank(analysis, taken, _options(analysis, annotation)) for analysis in analyses}


def answers_of_ranks(
    analyses: Sequence[JobAnalysis],
    ranks: Sequence[Mapping[str, RankOfJob]],
    annotation: str = PROFILER_STEP,
) -> tuple[dict[str, Answer], LinkedRanks]:
    """The answers of several analyses from what `ranks_of_job` took of each rank, and the ranks linked.

    Args:
        analyses: the analyses; one at least.
        ranks: what was taken of each rank.
        annotation: what marks a step.
    """
    first = [rank[analyses[0].name].parts for rank in ranks]
    bare = link_ranks([RankParts(part.facts, part.members) for part in first])
    answers = {}
    for analysis in analyses:
        of_ranks = [rank[analysis.name] for rank in ranks]
        linked = bare.with_parts(joined([rank.parts for rank in of_ranks]))
        answers[analysis.name] = _answer(analysis, of_ranks, linked, _options(analysis, annotation))
    return answers, bare


def _options(analysis: JobAnalysis, annotation: str) -> dict[str, object]:
    return {"annotation": annotation} if "annotation" in analysis.options else {}


def _answer(
    analysis: JobAnalysis, ranks: list[RankOfJob], linked: LinkedRanks, options: Mapping[str, object]
) -> Answer:
    frame = analysis.answer(linked, **options)
    alone = {Need.SEVERAL_RANKS} & {*analysis.needs, *analysis.uses} if len(ranks) < 2 else set()
    lacks = {rank.parts.facts.item(0, "rank"): (*alone, *rank.lacks) for rank in ranks}
    return Answer(analysis, frame, lacks)


def _questions_of(analysis: JobAnalysis, options: Mapping[str, object]) -> Questions:
    annotation = _annotation(options)
    lacks = lacking_questions(annotation, _needs(analysis))
    return {**gather_questions(annotation, analysis.gathers), **lacks}


def _needs(analysis: JobAnalysis) -> tuple[Need, ...]:
    """What the rank is asked for: whether there are several ranks is not for a trace to say."""
    every = dict.fromkeys((*_NEEDS, *analysis.needs, *analysis.uses))
    return tuple(need for need in every if need is not Need.SEVERAL_RANKS)


def _rank(analysis: JobAnalysis, taken: Mapping[Hashable, Any], options: Mapping[str, object]) -> RankOfJob:
    annotation = _annotation(options)
    lacking = taken[lacking_of, _needs(analysis), annotation]
    lacks = tuple(need for need in (*analysis.needs, *analysis.uses) if need in lacking)
    return RankOfJob(parts_of(taken, annotation, analysis.gathers), lacks)


def _annotation(options: Mapping[str, object]) -> str:
    return str(options.get("annotation", PROFILER_STEP))
