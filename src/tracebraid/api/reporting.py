"""Reports: what they ask of a run, and how they are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.antipatterns.known_detectors import KnownDetectors
from tracebraid.analysis.catalog import job_analyses, rank_analyses
from tracebraid.analysis.flames import flame_frames, flame_names, limited, merged_ranks
from tracebraid.analysis.info import execution_trace_info, timeline_info
from tracebraid.analysis.memory.memory_use import allocations, memory_timeline
from tracebraid.analysis.needs import lacking
from tracebraid.analysis.ranks.rank_steps import without_skewed
from tracebraid.analysis.ranks.segments import NO_SEGMENTS, rank_segments
from tracebraid.analysis.slices import RankSlices, SliceChoice, rank_slices, timeline_view
from tracebraid.analysis.time.step_times import spread_of, step_times
from tracebraid.api.advising import RankAdvice, advice_of_ranks, all_detectors, rank_advice
from tracebraid.api.describing import with_torch
from tracebraid.api.graphing import RankOfGraph, critical_path, graph_of_ranks, rank_of_graph
from tracebraid.api.job_answers import JobRankInput, answers_of_ranks, job_rank_inputs
from tracebraid.api.simulating import sweep
from tracebraid.api.stored_jobs import ReadStored
from tracebraid.errors import ArgumentError, InputError
from tracebraid.files import write_whole
from tracebraid.filesystem.paths import resolved_name
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.analysis import Analysis, Answer, Need, OnPage
from tracebraid.model.answers.memory import MemoryCategory
from tracebraid.model.answers.ops import FLAME_FRAMES
from tracebraid.model.answers.time import STEP_TIMES
from tracebraid.model.compact import compact
from tracebraid.model.coverage import Coverage
from tracebraid.model.engine import Job, RankPass, Unreadable
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode, Severity
from tracebraid.model.graph import CriticalPath, DependencyGraph
from tracebraid.model.linked_ranks import Gather, LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report import (
    FLAME_FRAMES_VIEW,
    FLAME_NAMES_VIEW,
    MOST_SLICES,
    Report,
    RunResults,
    most_rows,
    sampled,
    thinned,
)
from tracebraid.model.step import PROFILER_STEP, some_steps
from tracebraid.reports.page.page import page
from tracebraid.reports.sections.run_report import run_report
from tracebraid.validation.advice import diagnosis_of, without_consequences

_DIGITS = 18
"""Maximum digits of a step's number: a 64-bit integer."""


class ReportOptions(Struct, frozen=True):
    """Options of a report.

    Args:
        rank: only this rank; None: all.
        steps: the steps of the timeline: numbers, ranges or names, such as `3,5-7`; None: one of median
            length.
        with_graph: whether to compute the critical path and the what-if sweep, which takes most of the time of a
            large trace; None: only for traces that are not too large.
    """

    rank: int | None = None
    steps: str | None = None
    with_graph: bool | None = None


def chosen_steps(times: pl.DataFrame, wanted: str | None, annotation: str = PROFILER_STEP) -> tuple[str, ...]:
    """Return the names of the timeline's steps."""
    names = times.get_column("step").unique(maintain_order=True).to_list()
    if wanted is not None:
        return _wanted(names, wanted, annotation)
    steady = times.filter(~pl.col("warmup").fill_null(False), ~pl.col("doubtful"))
    rows = (steady if steady.height else times).sort("span_ns", maintain_order=True)
    return () if rows.is_empty() else (rows.item((rows.height - 1) // 2, "step"),)


def _wanted(names: Sequence[str], wanted: str, annotation: str) -> tuple[str, ...]:
    found: set[str] = set()
    for text in (part.strip() for part in wanted.split(",")):
        matching = [name for name in names if _is_selected(name, text, annotation)]
        if not matching:
            have = some_steps(names) if names else f"none, since nothing is annotated {annotation}"
            raise ArgumentError(f"there is no step {text}; there are: {have}")
        found |= set(matching)
    return tuple(name for name in names if name in found)


def _is_selected(name: str, text: str, annotation: str) -> bool:
    """Return whether a step is selected by its name, its number, or a range of numbers."""
    if text == name:
        return True
    number = name.removeprefix(f"{annotation}#")
    first, dash, last = text.partition("-")
    last = last or number if dash else last  # "3-" is from 3 on
    if dash and first.isdecimal() and last.isdecimal():
        # Python refuses to convert texts of thousands of digits, which a name may have.
        if max(map(len, (first, number, last))) > _DIGITS or not number.isdecimal():
            return False
        return int(first) <= int(number) <= int(last)
    return text == number


FRAMES_ON_PAGE = 4_000
"""Maximum drawn frames of a tree: more are narrower than a pixel; in addition, each may have a frame for its
smaller parts."""
NAMES_ON_PAGE = 200
"""Maximum names in the table beside the graph."""


def flames_of_rank(linked: LinkedTrace, options: ViewOptions) -> Mapping[str, pl.DataFrame]:
    """Compute a rank's frames over all steps and the time outside them, by name in `RunResults.views`."""
    return {FLAME_FRAMES_VIEW: flame_frames(linked)}


def flames_of_ranks(results: RunResults, ranks: LinkedRanks) -> Mapping[str, pl.DataFrame]:
    """Merge the largest frames of all detailed ranks for a page, and collect their names."""
    return frames_on_page(results.views.get(FLAME_FRAMES_VIEW, FLAME_FRAMES.empty()))


def frames_on_page(frames: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
    """Merge the largest frames over ranks, and the names of all, by name in `RunResults.views`."""
    merged = merged_ranks([rows for _, rows in frames.group_by(["rank"], maintain_order=True)])
    names = flame_names(merged)
    first = names.filter(pl.int_range(pl.len()).over("tree") < NAMES_ON_PAGE)
    return {FLAME_FRAMES_VIEW: limited(merged, FRAMES_ON_PAGE), FLAME_NAMES_VIEW: first}


class ViewOptions(Struct, frozen=True):
    """Options of a rank's views.

    Args:
        steps: names of the steps; empty: no step is marked, and the whole trace is shown.
        ranks: the number of shown ranks, which share the rows of the page.
    """

    steps: tuple[str, ...]
    ranks: int


MEMORY_BY_CATEGORY = "memory_by_category"
"""Name in `RunResults.views` of the table rank, device, ts_ns, category (a code of `MemoryCategory`), bytes."""

_MOMENTS = 500
"""Maximum moments of a device: the one with the most memory in each of equal time spans."""
_KEYS = ["rank", "device"]


def memory_view(linked: LinkedTrace, options: ViewOptions) -> Mapping[str, pl.DataFrame]:
    """Compute memory by device and category, at the moment with the most in each of equal time spans.

    Memory beyond the allocations in the trace counts as allocated before it.
    """
    timeline = memory_timeline(linked).select(*_KEYS, "ts_ns", "allocated_bytes")
    blocks = allocations(linked)
    found = [
        _of_device(moments.sort("ts_ns", maintain_order=True), blocks)
        for moments in timeline.partition_by(_KEYS, maintain_order=True)
    ]
    return {MEMORY_BY_CATEGORY: pl.concat(found)} if found else {}


def _of_device(moments: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each moment and category of a device."""
    at = sampled(moments, "allocated_bytes", _MOMENTS).unique("ts_ns", keep="last", maintain_order=True)
    of_device = blocks.filter(pl.col("device") == at.item(0, "device"))
    changes = _changes(of_device, moments.item(0, "ts_ns"))
    sums = [_alive(at, changes, category) for category in MemoryCategory]
    wide = at.with_columns(sums)
    names = [category.value for category in MemoryCategory]
    rest = pl.col("allocated_bytes") - pl.sum_horizontal(names)
    before = MemoryCategory.BEFORE_TRACE.value
    return (
        wide.with_columns((pl.col(before) + rest.clip(0)).alias(before))
        .unpivot(names, index=[*_KEYS, "ts_ns"], variable_name="category", value_name="bytes")
        .filter(pl.col("bytes").max().over("category") > 0)
    )


def _changes(blocks: pl.DataFrame, start_ns: int) -> pl.DataFrame:
    """Return bytes that each category allocates (+) and releases (-), in time order."""
    gets = blocks.select(
        pl.col("allocated_ns").fill_null(start_ns).alias("ts_ns"),
        "category",
        pl.col("size_bytes").alias("bytes"),
    )
    releases = blocks.filter(pl.col("released_ns").is_not_null()).select(
        pl.col("released_ns").alias("ts_ns"), "category", (-pl.col("size_bytes")).alias("bytes")
    )
    return pl.concat([gets, releases]).sort("ts_ns", maintain_order=True)


def _alive(at: pl.DataFrame, changes: pl.DataFrame, category: MemoryCategory) -> pl.Series:
    """Return the bytes of a category alive at each moment."""
    own = changes.filter(pl.col("category") == category.value)
    running = own.select("ts_ns", pl.col("bytes").cum_sum().alias("alive"))
    found = at.select("ts_ns").join_asof(running, on="ts_ns", strategy="backward")
    return found.get_column("alive").fill_null(0).alias(category.value)


_WINDOWS = "timeline-of-rank-windows"
_TABLES = {name: f"timeline-of-rank-{name}" for name in ("slices", "links", "drawn", "lanes")}
"""Names in `RunResults.views` of a rank's data; `job_timeline` empties them."""


def rank_timeline(linked: LinkedTrace, options: ViewOptions) -> Mapping[str, pl.DataFrame]:
    """Select the slices of a rank, its share of those of the page: see `RankSlices`."""
    choice = SliceChoice(options.steps, max(1, MOST_SLICES // options.ranks))
    found = rank_slices(linked, choice)
    rank = pl.lit(found.rank, dtype=pl.Int64).alias("rank")
    start, end = found.window_ns or (None, None)
    windows = pl.DataFrame(
        {
            "start_ns": [start],
            "end_ns": [end],
            "merged_ns": [found.merged_ns],
            "steps": [list(options.steps)],
        },
        schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "merged_ns": pl.Int64, "steps": pl.List(pl.String)},
    )
    tables = {_TABLES[name]: getattr(found, name).select(rank, pl.all()) for name in _TABLES}
    return {_WINDOWS: windows.select(rank, pl.all()), **tables}


def job_timeline(results: RunResults, ranks: LinkedRanks) -> Mapping[str, pl.DataFrame]:
    """Build the timeline of all gathered ranks: `TIMELINE_TABLES` by name."""
    views = results.views
    if _WINDOWS not in views:
        return {}
    parts = [_part(views, row) for row in views[_WINDOWS].iter_rows(named=True)]
    emptied = {name: views[name].clear() for name in (_WINDOWS, *_TABLES.values())}
    return {**emptied, **timeline_view(parts, ranks, results.path_of_steps)}


def _part(views: Mapping[str, pl.DataFrame], row: Mapping[str, object]) -> RankSlices:
    start, end, rank, merged_ns = row["start_ns"], row["end_ns"], row["rank"], row["merged_ns"]
    assert isinstance(rank, int) and isinstance(merged_ns, int), "both columns are int64 without nulls"
    window = (start, end) if isinstance(start, int) and isinstance(end, int) else None
    steps = row["steps"]
    names = tuple(str(step) for step in steps) if isinstance(steps, list) else ()
    of_rank = {
        name: views[table].filter(pl.col("rank") == rank).drop("rank") for name, table in _TABLES.items()
    }
    return RankSlices(rank, names, window, merged_ns, **of_rank)


RankView: TypeAlias = Callable[[LinkedTrace, ViewOptions], Mapping[str, pl.DataFrame]]
"""Function that computes tables of a rank by name in `RunResults.views`, which joins all detailed ranks."""

JobView: TypeAlias = Callable[[RunResults, LinkedRanks], Mapping[str, pl.DataFrame]]
"""Function that computes tables from all results and the linked ranks, by name in
`RunResults.views`; may replace those of a rank's view."""

RANK_VIEWS: tuple[RankView, ...] = (rank_timeline, flames_of_rank, memory_view)

JOB_VIEWS: tuple[JobView, ...] = (job_timeline, flames_of_ranks)


ON_PAGE = tuple((analysis, analysis.on_page) for analysis in rank_analyses() if analysis.on_page)
"""Rank analyses of a page, with their options."""
JOB_ON_PAGE = tuple((analysis, analysis.on_page) for analysis in job_analyses() if analysis.on_page)
"""Job analyses of a page, with their options."""
OF_JOB = tuple(analysis for analysis, _ in JOB_ON_PAGE)


class RankAnswer(Struct, frozen=True, eq=False):
    """Answer of a rank.

    Args:
        frame: the kept rows.
        lacks: the unmet needs.
        left_out: the number of dropped rows.
    """

    frame: pl.DataFrame
    lacks: tuple[Need, ...]
    left_out: int = 0


class RankResults(Struct, frozen=True, eq=False):
    """Results of a rank, without references to its linked trace.

    Args:
        rank: the rank.
        infos: descriptions of its files.
        coverage: its link coverage.
        answers: by analysis name.
        of_job: its input of job analyses, by name.
        advice: results of detectors.
        graph: its part of the dependency graph; None if not requested, or it cannot be built.
        views: tables for drawing.
        findings: the findings.
        steps: the steps of the timeline.
        with_graph: whether the graph was requested, also for later ranks.
        start_ns: start of its trace, on its own clock.
    """

    rank: int
    infos: tuple[FileInfo, ...]
    coverage: Coverage
    answers: Mapping[str, RankAnswer]
    of_job: Mapping[str, JobRankInput]
    advice: RankAdvice
    graph: RankOfGraph | None
    views: Mapping[str, pl.DataFrame]
    findings: tuple[Finding, ...]
    steps: tuple[str, ...]
    with_graph: bool
    start_ns: int | None = None


def rank_results(linked: LinkedTrace, asked: RankQuestion) -> RankResults:
    """Compute a rank's results for a report."""
    steps, with_graph = asked.steps, asked.with_graph
    if steps is None:
        times = step_times(linked)
        wanted = None if times.is_empty() else asked.options.steps
        steps = chosen_steps(times, wanted, linked.annotation)
    if with_graph is None:
        with_graph = linked.timeline.events.height * asked.ranks <= GRAPH_EVENTS
    options, is_detailed = ViewOptions(steps, max(1, len(asked.detailed))), linked.rank in asked.detailed
    linked, unread = _with_readable_et(linked) if asked.without_et else (linked, ())
    answers = {
        analysis.name: _answer(linked, analysis, on_page, options)
        for analysis, on_page in ON_PAGE
        if is_detailed or on_page.of_every_rank
    }
    # What a rank did before its collectives only says why it was later than others.
    known: dict[Gather, pl.DataFrame] = {rank_segments: NO_SEGMENTS} if len(asked.detailed) == 1 else {}
    of_job = job_rank_inputs(OF_JOB, linked, known)
    advice = rank_advice(linked, asked.known)
    graph = rank_of_graph(linked) if with_graph else None
    views: dict[str, pl.DataFrame] = {}
    for view in RANK_VIEWS if is_detailed else ():
        views |= {name: compact(frame) for name, frame in view(linked, options).items()}
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
        steps,
        with_graph,
        span[0] if span else None,
    )


def _answer(linked: LinkedTrace, analysis: Analysis, on_page: OnPage, views: ViewOptions) -> RankAnswer:
    lacks = lacking(analysis, linked)
    frame = analysis.answer_of(linked)
    kept = frame
    if on_page.rows is not None:
        rows = max(1, on_page.rows // views.ranks)
        kept = (
            thinned(frame, rows, on_page.by[0]) if on_page.is_series else most_rows(frame, rows, on_page.by)
        )
    return RankAnswer(compact(kept), lacks, frame.height - kept.height)


def _with_readable_et(linked: LinkedTrace) -> tuple[LinkedTrace, Sequence[Finding]]:
    """Return the linked trace; without its Execution Trace if that is unreadable or of another program."""
    try:
        _ = linked.coverage
    except InputError as error:
        details = {
            "case": FindingCase.EXECUTION_TRACE_LEFT_OUT,
            "rank": linked.rank,
            "problem": error.problem,
        }
        finding = Finding(FindingCode.RANK_UNREADABLE, error.path, error.where, details=details)
        return link_traces(linked.timeline).judged_by(linked.judge), (finding,)
    return linked, ()


def _infos(linked: LinkedTrace) -> tuple[FileInfo, ...]:
    timeline, et = linked.timeline, linked.et
    infos = [timeline_info(timeline, timeline.size_bytes or 0)]
    if et is not None:
        infos.append(execution_trace_info(et, et.size_bytes or 0))
    return tuple(infos)


GRAPH_EVENTS = 2_000_000
"""Maximum total events for which the graph is built by default: two seconds for a trace of 54 MB."""
SWEPT_ACTIVITIES = 250_000
"""Maximum activities of a graph for a default sweep: each group costs a pass over its edges."""
_SWEPT = 40
"""Number of groups whose gains are computed."""


class GraphResults(Struct, frozen=True, eq=False):
    """Results from the dependency graph.

    Args:
        graph: the graph; None if there is none.
        path: the critical path of the steps; None without graph.
        sweep: what-if answers; None without graph.
        problem: why these are missing.
        findings: the findings.
    """

    graph: DependencyGraph | None = None
    path: CriticalPath | None = None
    sweep: pl.DataFrame | None = None
    problem: str = ""
    findings: tuple[Finding, ...] = ()


def graph_results(ranks: Sequence[RankResults], with_graph: bool, options: ReportOptions) -> GraphResults:
    """Compute the critical path and the sweep of the ranks."""
    parts = [rank.graph for rank in ranks if rank.graph is not None]
    if not with_graph or not parts:
        if options.with_graph is False:
            return GraphResults(problem="It was not asked for: give --critical-path")
        return GraphResults(
            problem=f"The traces have more than {GRAPH_EVENTS:,} events: give --critical-path, which takes a while, "
            "or name a rank: --rank"
        )
    try:
        graph = graph_of_ranks(parts)
        if graph.activities.height > SWEPT_ACTIVITIES and not options.with_graph:
            path = critical_path(graph, replays=0)
            problem = f"The traces have more than {SWEPT_ACTIVITIES:,} activities: give --critical-path"
            return GraphResults(graph, path, None, problem, graph.findings)
        # Loops of the native library run beside each other.
        with ThreadPoolExecutor(1) as other:
            sweeping = other.submit(sweep, graph, groups=_SWEPT)
            # The page does not show how stable the path is.
            path = critical_path(graph, replays=0)
        swept = sweeping.result()
    except ArgumentError as error:
        return GraphResults(problem=str(error))
    return GraphResults(graph, path, swept, "", graph.findings)


DETAILED_RANKS = 16
"""Maximum ranks with details on kernels, ops and memory, spread evenly: a page shows no more."""
_SERIAL_PROBES = 8
"""Number of ranks probed serially for steps before the others run in parallel; a
heuristic."""


class RankQuestion(Struct, frozen=True, eq=False):
    """What a report asks of each rank.

    Args:
        options: what the report is made of.
        ranks: the number of ranks.
        detailed: the ranks with details on kernels, ops, memory, ...
        known: the detectors.
        steps: the steps of the timeline; None: chosen from the rank's own.
        with_graph: whether to build the graph; None: only if the traces are not too large, judging by this rank.
        without_et: whether a rank with an unreadable Execution Trace has the results of its Kineto trace alone.
    """

    options: ReportOptions
    ranks: int
    detailed: frozenset[int]
    known: KnownDetectors
    steps: tuple[str, ...] | None = None
    with_graph: bool | None = None
    without_et: bool = False


def run_results(job: Job, options: ReportOptions | None = None) -> RunResults:
    """Compute the results of a job."""
    options = options or ReportOptions()
    job = job.only(options.rank)
    known = all_detectors().for_ranks(len(job.ranks))
    asked = RankQuestion(
        options,
        len(job.ranks),
        frozenset(_spread(job.ranks, DETAILED_RANKS)),
        known,
        with_graph=options.with_graph,
        without_et=job.unreadable is Unreadable.SKIP,
    )
    found, asked = _probe_then_fan_out(RankPass(job, job.ranks), asked)
    if options.steps is not None and not asked.steps:
        chosen_steps(STEP_TIMES.empty(), options.steps, job.annotation)
    return _results(job, asked, found)


def _probe_then_fan_out(over: RankPass, asked: RankQuestion) -> tuple[list[RankResults], RankQuestion]:
    """Gather the results of the ranks, some leading ranks first.

    The first rank with steps determines the timeline; then all others run.
    """
    found: list[RankResults] = []
    ranks = list(over.ranks)
    while ranks and asked.steps is None and len(found) < _SERIAL_PROBES:
        for _, results in over.ask([ranks.pop(0)], partial(rank_results, asked=asked)):
            found.append(results)
            asked = replace(asked, steps=results.steps or None, with_graph=results.with_graph)
    asked = replace(asked, steps=asked.steps or ())
    question = partial(rank_results, asked=asked)
    found += [results for _, results in over.ask(ranks, question)]
    found += [results for _, results in over.finish(question)]
    return found, asked


def _results(job: Job, asked: RankQuestion, found: Sequence[RankResults]) -> RunResults:
    """Combine the results of the ranks."""
    options = asked.options
    graph = graph_results(found, bool(asked.with_graph), options)
    advice = advice_of_ranks([rank.advice for rank in found], asked.known, graph.graph)
    answers, left_out = _answers_of_ranks(found)
    of_job, linked = answers_of_ranks(OF_JOB, [rank.of_job for rank in found])
    bounded, left_of_job = _bounded(of_job)
    of_ranks = (finding for rank in found for finding in rank.findings)
    job.add_findings([*of_ranks, *linked.findings, *advice.findings, *graph.findings])
    with_findings = without_consequences(job.findings)
    store = job.load.store if isinstance(job.load, ReadStored) else None
    results = RunResults(
        path=job.path,
        ranks=[rank.rank for rank in found],
        infos=[with_torch(store, info) for rank in found for info in rank.infos],
        coverages={rank.rank: rank.coverage for rank in found},
        answers={**_without_skewed(answers, of_job), **bounded},
        findings=tuple(with_findings),
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
        notes=frozenset(
            finding.code for finding in with_findings if diagnosis_of(finding).severity is Severity.NOTE
        ),
    )
    for view in JOB_VIEWS:
        results = replace(results, views={**results.views, **view(results, linked)})
    return results


def _without_skewed(answers: Mapping[str, Answer], of_job: Mapping[str, Answer]) -> dict[str, Answer]:
    """Without first steps of ranks that began to record before the others, in what each rank says by itself."""
    times, spread = answers["step_times"], answers["step_spread"]
    kept = without_skewed(times.frame, of_job["rank_steps"].frame)
    if kept.height == times.frame.height:
        return dict(answers)
    frames = {"step_times": replace(times, frame=kept), "step_spread": replace(spread, frame=spread_of(kept))}
    return {**answers, **frames}


def _spread(ranks: Sequence[int], most: int) -> list[int]:
    """Select evenly spread ranks, including the first and the last."""
    if len(ranks) <= most:
        return list(ranks)
    return [ranks[number * (len(ranks) - 1) // (most - 1)] for number in range(most)]


def _answers_of_ranks(found: Sequence[RankResults]) -> tuple[dict[str, Answer], dict[str, int]]:
    """Return the answers over all ranks, and the number of dropped rows of each."""
    answers, left_out = {}, {}
    for analysis, _ in ON_PAGE:
        name = analysis.name
        of_ranks = {rank.rank: rank.answers[name] for rank in found if name in rank.answers}
        frame = pl.concat([analysis.table.empty(), *(answer.frame for answer in of_ranks.values())])
        lacks = {rank: answer.lacks for rank, answer in of_ranks.items()}
        answers[name] = Answer(analysis, frame, lacks)
        left_out[name] = sum(answer.left_out for answer in of_ranks.values())
    return answers, {name: rows for name, rows in left_out.items() if rows}


def _bounded(answers: Mapping[str, Answer]) -> tuple[dict[str, Answer], dict[str, int]]:
    """Limit the job's answers to the kept rows; return the number of dropped rows of each."""
    found, left_out = {}, {}
    for analysis, on_page in JOB_ON_PAGE:
        answer = answers[analysis.name]
        frame = answer.frame if on_page.rows is None else most_rows(answer.frame, on_page.rows, on_page.by)
        found[analysis.name] = replace(answer, frame=frame)
        if frame.height < answer.frame.height:
            left_out[analysis.name] = answer.frame.height - frame.height
    return found, left_out


def _first_start(linked: LinkedRanks) -> int:
    """Return the start of the first trace, on aligned clocks."""
    starts = linked.aligned(linked.ranks.select("rank", "start_ns"), "start_ns").get_column("start_ns")
    first = starts.drop_nulls().min()
    return first if isinstance(first, int) else 0


def _joined_views(found: Sequence[RankResults]) -> dict[str, pl.DataFrame]:
    names = dict.fromkeys(name for rank in found for name in rank.views)
    return {name: pl.concat([rank.views[name] for rank in found if name in rank.views]) for name in names}


def report(
    job: Job,
    *,
    title: str | None = None,
    rank: int | None = None,
    steps: str | None = None,
    with_graph: bool | None = None,
) -> Report:
    """Build a report of a run: where its time goes, why, and what would change it.

    Args:
        job: the ranks.
        title: the title; by default the name of the opened folder or file.
        rank: only this rank; None: all.
        steps: the steps of the timeline: numbers, ranges or names, such as `3,5-7`; None: one of median
            length.
        with_graph: whether to compute the critical path and the what-if sweep, which takes most of the time of a
            large trace; None: only for traces that are not too large.

    Raises:
        InputError: a file cannot be read, or two traces state the same rank.
        ArgumentError: there is no such rank or step.

    Example::

        report = tracebraid.report(tracebraid.open("traces/", unreadable="skip"))
        tracebraid.write_report(report, "report.html")
    """
    results = run_results(job, ReportOptions(rank, steps, with_graph))
    return run_report(results, title or f"Tracebraid: {resolved_name(job.path)}")


def write_report(report: Report, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a report as one HTML page that needs no network; the same report gives the same bytes.

    Args:
        report: from `report` or `comparison_report`.
        path: the new file.
        overwrite: whether to replace an existing file.

    Raises:
        MissingLibraryError: jinja2 is not installed.
        OutputError: the file exists, or cannot be written.
    """
    write_whole(Path(path), [page(report).encode("utf-8")], overwrite)
