"""The results that a report of a run is made from, in one pass over the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from tracebraid.analysis.antipatterns.known_detectors import KnownDetectors, known_detectors
from tracebraid.analysis.time.step_times import step_times
from tracebraid.api.advising import advice_of_ranks
from tracebraid.api.checking import faults, is_note
from tracebraid.api.job.readable_ranks import ReadableRanks
from tracebraid.api.job.whole_job import answers_of_ranks
from tracebraid.api.reporting.asked import ASKED, ASKED_OF_JOB, DETAILED_RANKS
from tracebraid.api.reporting.graph_results import GRAPH_EVENTS, graph_results
from tracebraid.api.reporting.options import ReportOptions, chosen_steps
from tracebraid.api.reporting.rank_results import BY_NAME, OF_JOB, AskedOfRank, RankResults, rank_results
from tracebraid.api.reporting.views import JOB_VIEWS, ViewOptions
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Answer
from tracebraid.model.rank_files import Progress
from tracebraid.model.report.bounded import most_rows
from tracebraid.model.report.run_results import RunResults

__all__ = ["run_results"]


_LEADERS = 8
"""Ranks that are asked alone until one has steps: of a job without steps, the others are asked at once after so many; a
chosen value."""


@dataclass(frozen=True, eq=False)
class _Answered:
    """What was taken of a rank, and what the ranks that are asked after it are to show."""

    results: RankResults
    steps: tuple[str, ...]
    with_graph: bool


@dataclass(frozen=True, eq=False)
class _Question:
    """What is asked of a rank.

    Args:
        options: what the report is made of.
        ranks: how many ranks are asked.
        detailed: the ranks of which kernels, ops, memory ... are asked.
        known: the detectors.
        steps: the steps that the timeline shows; None: the rank's own say.
        with_graph: whether the graph is made; None: if the traces are not too large, were all ranks like this one.
    """

    options: ReportOptions
    ranks: int
    detailed: frozenset[int]
    known: KnownDetectors
    steps: tuple[str, ...] | None = None
    with_graph: bool | None = None

    def __call__(self, linked: LinkedTrace) -> _Answered:
        steps, with_graph = self.steps, self.with_graph
        if steps is None:
            times = step_times(linked, self.options.annotation)
            wanted = None if times.is_empty() else self.options.steps
            steps = chosen_steps(times, wanted, self.options.annotation)
        if with_graph is None:
            with_graph = linked.timeline.events.height * self.ranks <= GRAPH_EVENTS
        views = ViewOptions(steps, self.options.annotation, max(1, len(self.detailed)))
        is_detailed = linked.rank in self.detailed
        asked = AskedOfRank(views, is_detailed, self.known, with_graph, len(self.detailed) == 1)
        return _Answered(rank_results(linked, asked), steps, with_graph)


def run_results(
    job: Job, options: ReportOptions | None = None, progress: Progress | None = None
) -> RunResults:
    """The results of a job; a rank that cannot be read is left out, and a finding says so.

    Args:
        job: the ranks.
        options: what is asked; by default all.
        progress: is called with the share of the traces that is read, 0 to 1.

    Raises:
        InputError: no rank can be read.
        ArgumentError: there is no such rank or step.
        MissingLibraryError: the graph is asked for, and numba is not installed.
    """
    options = options or ReportOptions()
    ranks = _ranks(job, options.rank)
    detailed = frozenset(_spread(ranks, DETAILED_RANKS))
    asked = _Question(options, len(ranks), detailed, known_detectors(), with_graph=options.with_graph)
    findings: list[Finding] = list(job.findings)
    asking = ReadableRanks(job, tuple(ranks), progress or _silent, findings, noticed=False)
    found, asked = _ask_leaders_first(asking, asked)
    if options.steps is not None and not asked.steps:
        chosen_steps(BY_NAME["step_times"].table.empty(), options.steps, options.annotation)
    return _results(job, asked, found, findings)


def _ask_leaders_first(asking: ReadableRanks, asked: _Question) -> tuple[list[RankResults], _Question]:
    """What was taken of the ranks: the first that has steps says which the timeline shows, then all others are asked.

    Returns:
        What was taken, and the question with what was decided.
    """
    found: list[RankResults] = []
    ranks = list(asking.ranks)
    while ranks and asked.steps is None and len(found) < _LEADERS:
        for answer in asking.ask([ranks.pop(0)], asked):
            found.append(answer.results)
            asked = replace(asked, steps=answer.steps or None, with_graph=answer.with_graph)
    asked = replace(asked, steps=asked.steps or ())
    found += [answer.results for answer in asking.ask(ranks, asked)]
    found += [answer.results for answer in asking.ask_disputed(asked)]
    return found, asked


def _results(
    job: Job, asked: _Question, found: Sequence[RankResults], findings: Sequence[Finding]
) -> RunResults:
    """The results of what was taken of the ranks."""
    options = asked.options
    graph = graph_results(found, bool(asked.with_graph), options)
    advice = advice_of_ranks([rank.advice for rank in found], asked.known)
    answers, left_out = _answers_of_ranks(found)
    of_job, linked = answers_of_ranks(OF_JOB, [rank.of_job for rank in found], options.annotation)
    bounded, left_of_job = _bounded(of_job)
    of_ranks = [finding for rank in found for finding in rank.findings]
    noticed = faults([*findings, *of_ranks, *linked.findings, *advice.findings, *graph.findings])
    results = RunResults(
        path=job.path,
        ranks=[rank.rank for rank in found],
        infos=[info for rank in found for info in rank.infos],
        coverages={rank.rank: rank.coverage for rank in found},
        answers={**answers, **bounded},
        findings=tuple(dict.fromkeys(noticed)),
        start_ns=_first_start(linked),
        advice=advice,
        path_of_steps=graph.path,
        without_graph=graph.problem,
        sweep=graph.sweep,
        views=_joined_views(found),
        starts={rank.rank: rank.start_ns for rank in found if rank.start_ns is not None},
        left_out={**left_out, **left_of_job},
        detailed=[rank.rank for rank in found if rank.rank in asked.detailed],
        steps=asked.steps or (),
        notes=frozenset(finding.code for finding in noticed if is_note(finding)),
    )
    for view in JOB_VIEWS:
        results = replace(results, views={**results.views, **view(results, linked)})
    return results


def _silent(_: float) -> None:
    """Progress that nobody looks at."""


def _ranks(job: Job, rank: int | None) -> list[int]:
    if rank is not None:
        job.check_rank(rank)
    return job.ranks if rank is None else [rank]


def _spread(ranks: Sequence[int], most: int) -> list[int]:
    """Some of many ranks, evenly spread, the first and the last among them."""
    if len(ranks) <= most:
        return list(ranks)
    return [ranks[number * (len(ranks) - 1) // (most - 1)] for number in range(most)]


def _answers_of_ranks(found: Sequence[RankResults]) -> tuple[dict[str, Answer], dict[str, int]]:
    """The answers over all ranks, and how many rows of each are left out."""
    answers, left_out = {}, {}
    for asked in ASKED:
        of_ranks = {rank.rank: rank.answers[asked.name] for rank in found if asked.name in rank.answers}
        analysis = BY_NAME[asked.name]
        frame = pl.concat([analysis.table.empty(), *(answer.frame for answer in of_ranks.values())])
        lacks = {rank: answer.lacks for rank, answer in of_ranks.items()}
        answers[asked.name] = Answer(analysis, frame, lacks)
        left_out[asked.name] = sum(answer.left_out for answer in of_ranks.values())
    return answers, {name: rows for name, rows in left_out.items() if rows}


def _bounded(answers: Mapping[str, Answer]) -> tuple[dict[str, Answer], dict[str, int]]:
    """The answers of the job with the rows that are kept, and how many of each are left out."""
    found, left_out = {}, {}
    for asked in ASKED_OF_JOB:
        answer = answers[asked.name]
        frame = answer.frame if asked.rows is None else most_rows(answer.frame, asked.rows, asked.by)
        found[asked.name] = replace(answer, frame=frame)
        if frame.height < answer.frame.height:
            left_out[asked.name] = answer.frame.height - frame.height
    return found, left_out


def _first_start(linked: LinkedRanks) -> int:
    """When the first trace began, on aligned clocks."""
    starts = linked.aligned(linked.ranks.select("rank", "start_ns"), "start_ns").get_column("start_ns")
    first = starts.drop_nulls().min()
    return first if isinstance(first, int) else 0


def _joined_views(found: Sequence[RankResults]) -> dict[str, pl.DataFrame]:
    names = dict.fromkeys(name for rank in found for name in rank.views)
    return {name: pl.concat([rank.views[name] for rank in found if name in rank.views]) for name in names}
