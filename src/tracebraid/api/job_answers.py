"""Questions over the ranks of a job: what is gathered of each, and how they are linked with each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import polars as pl
from msgspec import Struct

from tracebraid.analysis.catalog import job_analyses
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.needs import lacking_of
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.linking.ranks.clocks import joined, link_ranks
from tracebraid.model.analysis import Answer, JobAnalysis, Need
from tracebraid.model.engine import Job, Questions, answers_of
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts, gather_of
from tracebraid.model.linked_trace import LinkedTrace


def gathering(gather: Gather) -> Callable[[LinkedTrace], pl.DataFrame]:
    """Turn a function of a linked trace into a question."""
    return partial(gather_of, gather=gather)


def gather_questions(gathers: Iterable[Gather]) -> Questions:
    """Return the questions that link a rank with others, and further ones."""
    asked = {gather: gathering(gather) for gather in (members, *gathers)}
    return {rank_facts: facts_of_rank, **asked}


def facts_of_rank(linked: LinkedTrace) -> pl.DataFrame:
    """Return `rank_facts` of a rank, from the store if available."""
    return linked.answered("rank_facts", rank_facts)


def lacking_questions(needs: tuple[Need, ...]) -> Questions:
    """Return the questions for the unmet needs of a rank."""
    return {(lacking_of, needs): partial(lacking_of, needs)}


def parts_of(taken: Mapping[Hashable, Any], gathers: Iterable[Gather]) -> RankParts:
    """Collect the parts of a rank from the answers to `gather_questions`."""
    return RankParts(taken[rank_facts], taken[members], {gather: taken[gather] for gather in gathers})


def rank_parts(linked: LinkedTrace, gathered: Mapping[Gather, pl.DataFrame] | None = None) -> RankParts:
    """Gather the parts of a rank that link it with others."""
    kept = {gather: linked.compacted(frame) for gather, frame in (gathered or {}).items()}
    own_members = gather_of(linked, members)
    return RankParts(linked.compacted(facts_of_rank(linked)), linked.compacted(own_members), kept)


def linked_parts(parts: Sequence[RankParts]) -> LinkedRanks:
    """Link ranks with each other, each rank once."""
    return link_ranks(parts)


def on_reference_clock(linked: LinkedTrace, ranks: LinkedRanks) -> LinkedTrace:
    """Move event starts of a linked trace to the reference clock; unchanged if its clock is unknown.

    Durations stay on the rank's own clock; a drift of 100 ppm adds 0.1 µs for each ms.
    """
    timeline = linked.timeline
    own = timeline.events.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
    events = ranks.aligned(own, "ts_ns").select(timeline.events.columns)
    timeline = replace(timeline, tables={**timeline.tables, "events": events})
    return LinkedTrace(timeline, linked.stages, linked.annotation, named_device=linked.named_device)


@cache
def _needs_of_all() -> tuple[Need, ...]:
    """All needs of analyses of a job, checked when a rank is first read, so that the next analysis need not read it."""
    return tuple(
        dict.fromkeys(need for analysis in job_analyses() for need in (*analysis.needs, *analysis.uses))
    )


class JobRankInput(Struct, frozen=True, eq=False):
    """Input of a job's analysis from a rank.

    Args:
        parts: the data that is kept of the rank.
        lacks: the unmet needs of the analysis.
    """

    parts: RankParts
    lacks: tuple[Need, ...]


def linked_with_parts(job: Job, parts: Sequence[RankParts]) -> LinkedRanks:
    """Link the ranks of a job with each other, once for all questions; the findings become those of the job."""
    bare = [RankParts(part.facts, part.members) for part in parts]
    ranks = tuple(part.facts.item(0, "rank") for part in parts)
    linked = job.derived((link_ranks, ranks), partial(link_ranks, bare))
    job.add_findings([*linked.findings, *_absent(job, linked)])
    return linked.with_parts(joined(parts))


def _absent(job: Job, linked: LinkedRanks) -> list[Finding]:
    """A finding where some ranks of a job were not given, of which nobody asked to leave any out."""
    here, world = linked.ranks.height, linked.ranks.get_column("world_size").max()
    is_asked = any(finding.code is FindingCode.RANKS_CHOSEN for finding in job.findings)
    if here < 2 or not isinstance(world, int) or world <= here or is_asked:
        return []
    return [Finding(FindingCode.RANKS_ABSENT, job.path, details={"here": here, "ranks": world})]


def answer_of_job(
    analysis: JobAnalysis, job: Job, options: Mapping[str, object], beside: Questions | None = None
) -> tuple[Answer, list[dict[Hashable, Any]]]:
    """Answer an analysis over all ranks in one pass; return it with the answers of each rank to other questions."""
    taken = list(job.take({**_questions_of(analysis), **(beside or {})}))
    ranks = [_rank(analysis, of_rank) for of_rank in taken]
    linked = linked_with_parts(job, [rank.parts for rank in ranks])
    return _answer(analysis, ranks, linked, options), taken


def job_rank_inputs(
    analyses: Sequence[JobAnalysis], linked: LinkedTrace, known: Mapping[Gather, pl.DataFrame] | None = None
) -> dict[str, JobRankInput]:
    """Gather the input of several analyses from a rank, by name; shared input is computed once."""
    given: dict[Hashable, Any] = dict((known or {}).items())
    questions = {key: ask for analysis in analyses for key, ask in _questions_of(analysis).items()}
    taken = answers_of(linked, {key: ask for key, ask in questions.items() if key not in given}) | given
    return {analysis.name: _rank(analysis, taken) for analysis in analyses}


def answers_of_ranks(
    analyses: Sequence[JobAnalysis],
    ranks: Sequence[Mapping[str, JobRankInput]],
) -> tuple[dict[str, Answer], LinkedRanks]:
    """Answer several analyses from the results of `job_rank_inputs` and the linked ranks."""
    first = [rank[analyses[0].name].parts for rank in ranks]
    bare = link_ranks([RankParts(part.facts, part.members) for part in first])
    answers = {}
    for analysis in analyses:
        of_ranks = [rank[analysis.name] for rank in ranks]
        linked = bare.with_parts(joined([rank.parts for rank in of_ranks]))
        answers[analysis.name] = _answer(analysis, of_ranks, linked, {})
    return answers, bare


def _answer(
    analysis: JobAnalysis, ranks: list[JobRankInput], linked: LinkedRanks, options: Mapping[str, object]
) -> Answer:
    frame = analysis.answer(linked, **options)
    alone = {Need.SEVERAL_RANKS} & {*analysis.needs, *analysis.uses} if len(ranks) < 2 else set()
    lacks = {rank.parts.facts.item(0, "rank"): (*alone, *rank.lacks) for rank in ranks}
    # Moments are on aligned clocks.
    first = linked.ranks.get_column("start_ns").min()
    starts = dict.fromkeys(lacks, first if isinstance(first, int) else 0)
    return Answer(analysis, frame, lacks, starts, is_matched=not linked.collectives.is_empty())


def _questions_of(analysis: JobAnalysis) -> Questions:
    return {**gather_questions(analysis.gathers), **lacking_questions(_needs(analysis))}


def _needs(analysis: JobAnalysis) -> tuple[Need, ...]:
    """Return the needs that a single rank can meet, which excludes several ranks."""
    every = dict.fromkeys((*_needs_of_all(), *analysis.needs, *analysis.uses))
    return tuple(need for need in every if need is not Need.SEVERAL_RANKS)


def _rank(analysis: JobAnalysis, taken: Mapping[Hashable, Any]) -> JobRankInput:
    lacking = taken[lacking_of, _needs(analysis)]
    lacks = tuple(need for need in (*analysis.needs, *analysis.uses) if need in lacking)
    return JobRankInput(parts_of(taken, analysis.gathers), lacks)
