"""What a report takes of a rank, which is read once and released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracebraid.analysis.antipatterns.known_detectors import KnownDetectors
from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.info import execution_trace_info, timeline_info
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.analysis.needs import lacking
from tracebraid.analysis.ranks.lateness.rank_segments import NO_SEGMENTS, rank_segments
from tracebraid.api.advising import RankAdvice, rank_advice
from tracebraid.api.graphing import RankOfGraph, rank_of_graph
from tracebraid.api.job.whole_job import RankOfJob, ranks_of_job
from tracebraid.api.reporting.asked import ASKED, ASKED_OF_JOB, Asked
from tracebraid.api.reporting.views import RANK_VIEWS, ViewOptions
from tracebraid.errors import InputError, MissingLibraryError
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.compact import compact
from tracebraid.model.coverage import Coverage
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.linked_ranks import Gather
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.report.bounded import most_rows, thinned

__all__ = ["BY_NAME", "OF_JOB", "AskedOfRank", "RankAnswer", "RankResults", "rank_results"]

BY_NAME = {analysis.name: analysis for analysis in ANALYSES}
OF_JOB: tuple[JobAnalysis, ...] = tuple(
    analysis for analysis in JOB_ANALYSES if analysis.name in {asked.name for asked in ASKED_OF_JOB}
)


@dataclass(frozen=True, eq=False)
class RankAnswer:
    """An answer of a rank.

    Args:
        frame: the rows that are kept.
        lacks: what the rank lacks for it.
        left_out: how many rows are not kept.
    """

    frame: pl.DataFrame
    lacks: tuple[Need, ...]
    left_out: int = 0


@dataclass(frozen=True, eq=False)
class AskedOfRank:
    """What is asked of a rank.

    Args:
        views: what its views show.
        is_detailed: whether all analyses are asked, or only those of every rank.
        known: the detectors.
        with_graph: whether its part of the dependency graph is made.
        is_alone: whether it is the only rank that is asked.
    """

    views: ViewOptions
    is_detailed: bool
    known: KnownDetectors
    with_graph: bool
    is_alone: bool = False


@dataclass(frozen=True, eq=False)
class RankResults:
    """What is kept of a rank; holds nothing of its linked trace.

    Args:
        rank: the rank.
        infos: what its files are.
        coverage: how much of it was linked.
        answers: by the name of the analysis.
        of_job: what the analyses of the job take of it, by their names.
        advice: what detectors found on it.
        graph: its part of the dependency graph; None where that was not asked, or cannot be made here.
        views: tables that are drawn.
        findings: what was noticed.
        start_ns: when its trace began, on its own clock.
        without_graph: what is not installed that the graph needs.
    """

    rank: int
    infos: tuple[FileInfo, ...]
    coverage: Coverage
    answers: Mapping[str, RankAnswer]
    of_job: Mapping[str, RankOfJob]
    advice: RankAdvice
    graph: RankOfGraph | None
    views: Mapping[str, pl.DataFrame]
    findings: tuple[Finding, ...]
    start_ns: int | None = None
    without_graph: str = ""


def rank_results(linked: LinkedTrace, asked: AskedOfRank) -> RankResults:
    """What a report takes of a rank; where its Execution Trace cannot be read, of its Kineto trace alone."""
    linked, unread = _with_readable_et(linked)
    annotation = asked.views.annotation
    answers = {
        entry.name: _answer(linked, entry, asked.views)
        for entry in ASKED
        if asked.is_detailed or entry.of_every_rank
    }
    # What a rank did before its collectives only says why it was later than others.
    known: dict[Gather, pl.DataFrame] = {rank_segments: NO_SEGMENTS} if asked.is_alone else {}
    of_job = ranks_of_job(OF_JOB, linked, annotation, known)
    advice = rank_advice(linked, asked.known, annotation)
    graph, without_graph = None, ""
    try:
        graph = rank_of_graph(linked, annotation) if asked.with_graph else None
    except MissingLibraryError as error:
        without_graph = str(error)
    views: dict[str, pl.DataFrame] = {}
    for view in RANK_VIEWS if asked.is_detailed else ():
        views |= {name: compact(frame) for name, frame in view(linked, asked.views).items()}
    coverage = linked.coverage
    span = linked.timeline.span_ns
    return RankResults(
        linked.rank,
        _infos(linked),
        coverage,
        answers,
        of_job,
        advice,
        graph,
        views,
        (*unread, *linked.known_findings),
        span[0] if span else None,
        without_graph,
    )


def _answer(linked: LinkedTrace, asked: Asked, views: ViewOptions) -> RankAnswer:
    analysis = BY_NAME[asked.name]
    options: dict[str, Any] = dict(asked.options)
    if "annotation" in analysis.options:
        options["annotation"] = views.annotation
    lacks = lacking(analysis, linked, views.annotation)
    frame = analysis.answer_of(linked, **options)
    kept = frame
    if asked.rows is not None:
        rows = max(1, asked.rows // views.ranks)
        kept = thinned(frame, rows, asked.by[0]) if asked.is_series else most_rows(frame, rows, asked.by)
    return RankAnswer(compact(kept), lacks, frame.height - kept.height)


def _with_readable_et(linked: LinkedTrace) -> tuple[LinkedTrace, Sequence[Finding]]:
    """The linked trace; where its Execution Trace cannot be read, or is of another program, without it."""
    try:
        _ = linked.coverage
    except InputError as error:
        details = {
            "case": FindingCase.EXECUTION_TRACE_LEFT_OUT,
            "rank": linked.rank,
            "problem": error.problem,
        }
        finding = Finding(FindingCode.RANK_UNREADABLE, error.path, error.where, details=details)
        return link_traces(linked.timeline), (finding,)
    return linked, ()


def _infos(linked: LinkedTrace) -> tuple[FileInfo, ...]:
    timeline, et = linked.timeline, linked.et
    infos = [timeline_info(timeline, timeline.size_bytes or 0)]
    if et is not None:
        infos.append(execution_trace_info(et, et.size_bytes or 0))
    return tuple(infos)
