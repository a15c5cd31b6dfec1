"""What is known of a whole job before its ranks are written: clocks, collectives and the critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from tracebraid.api.critical_paths import critical_path_of_graph
from tracebraid.api.exports.collective_flows import collective_rates, joined_members
from tracebraid.api.exports.options import ExportOptions, ask_each
from tracebraid.api.exports.steps import SeenSteps, steps_of
from tracebraid.api.graphing import RankOfGraph, graph_of_ranks, rank_of_graph
from tracebraid.api.job.aligning import linked_parts, rank_parts
from tracebraid.errors import ArgumentError, MissingLibraryError
from tracebraid.graph.critical_path.find_path import PathOptions
from tracebraid.model.engine import InProcess
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.job import Job
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import MATCHED_COLLECTIVES, MEMBERS

__all__ = ["FIRST_PASS", "JobFacts", "job_facts"]

FIRST_PASS = 0.5
"""Share of the progress that the first of two passes over the ranks makes."""


@dataclass(frozen=True, eq=False)
class JobFacts:
    """What is known of a job.

    Args:
        ranks: the ranks that can be read, on aligned clocks.
        numbers: the place of each rank among those that are shown.
        only: the only rank, where there is no other: it need not be read again.
        earliest_ns: the first event of all, on aligned clocks; 0 without events.
        members: `joined_members`.
        rates: `collective_rates`.
        path: the critical path; None where there is none.
        findings: what was noticed about the job.
    """

    ranks: LinkedRanks
    numbers: Mapping[int, int]
    only: LinkedTrace | None
    earliest_ns: int
    members: pl.DataFrame
    rates: pl.DataFrame
    path: CriticalPath | None
    findings: tuple[Finding, ...]

    @property
    def of_ranks(self) -> JobFacts:
        """What the timelines of single ranks need of it: that is sent to each process that makes some."""
        ranks = replace(
            self.ranks, members=MEMBERS.empty(), collectives=MATCHED_COLLECTIVES.empty(), parts={}
        )
        return replace(self, ranks=ranks, only=None, path=None, findings=())


def job_facts(job: Job, options: ExportOptions) -> JobFacts:
    """Read each rank that is exported once.

    Raises:
        ArgumentError: there is no such rank or step.
        InputError: no rank can be read.
    """
    ranks = job.ranks if options.rank is None else [options.rank]
    progress = options.progress
    half = replace(options, progress=None if progress is None else lambda done: progress(done * FIRST_PASS))
    if len(ranks) == 1:
        # The only rank is asked here, whatever the engine, and written next: it is not read twice.
        job = replace(job, engine=InProcess())
    asked = partial(_facts_of_rank, replace(options, progress=None), keeps_linked=len(ranks) == 1)
    found = list(ask_each(job, half, asked, []))
    seen = SeenSteps(options)
    for of_rank in found:
        seen.see(of_rank.steps)
    seen.check()
    linked_ranks, path, findings = _joined(found, options)
    starts = [(of_rank.rank, of_rank.start_ns) for of_rank in found if of_rank.start_ns is not None]
    on_own_clocks = pl.DataFrame(starts, schema={"rank": pl.Int64, "ts_ns": pl.Int64}, orient="row")
    earliest = linked_ranks.aligned(on_own_clocks, "ts_ns").get_column("ts_ns").min()
    return JobFacts(
        linked_ranks,
        {of_rank.rank: number for number, of_rank in enumerate(found)},
        found[0].linked if len(found) == 1 else None,
        earliest if isinstance(earliest, int) else 0,
        joined_members(linked_ranks, options.step_names),
        collective_rates(linked_ranks),
        path,
        findings,
    )


@dataclass(frozen=True, eq=False)
class _FactsOfRank:
    """What is taken of a rank.

    Args:
        rank: the rank.
        parts: what links it with the others.
        graph: its part of the dependency graph; None where that cannot be made.
        steps: the names of its steps, where one is exported.
        start_ns: when its first event starts, on its own clock; None without events.
        problem: what is not installed that the graph needs.
        linked: the rank itself, where it is the only one.
    """

    rank: int
    parts: RankParts
    graph: RankOfGraph | None
    steps: tuple[str, ...]
    start_ns: int | None
    problem: str
    linked: LinkedTrace | None


def _facts_of_rank(options: ExportOptions, linked: LinkedTrace, *, keeps_linked: bool) -> _FactsOfRank:
    """What is taken of a rank; what of its files cannot be read is met here."""
    if linked.has_et:
        linked.compute_all()
    steps = steps_of(linked, options)
    start = linked.timeline.events.get_column("ts_ns").min()
    graph, problem = None, ""
    try:
        graph = rank_of_graph(linked, options.annotation)
    except MissingLibraryError as error:
        problem = str(error)
    parts = rank_parts(linked, options.annotation) if graph is None else graph.parts
    start_ns = start if isinstance(start, int) else None
    kept = linked if keeps_linked else None
    return _FactsOfRank(linked.rank, parts, graph, steps, start_ns, problem, kept)


def _joined(
    found: Sequence[_FactsOfRank], options: ExportOptions
) -> tuple[LinkedRanks, CriticalPath | None, tuple[Finding, ...]]:
    """The ranks linked with each other, the critical path over those that are shown, and why there is none."""
    problem = next((of_rank.problem for of_rank in found if of_rank.problem), "")
    graphs = [of_rank.graph for of_rank in found if of_rank.graph is not None]
    if not problem:
        try:
            graph = graph_of_ranks(graphs, options.annotation)
            path = critical_path_of_graph(graph, PathOptions(options.step, None, 0), with_error=False)
        except (ArgumentError, MissingLibraryError) as error:
            problem = str(error)
        else:
            return graph.ranks, path, ()
    without = Finding.of(FindingCode.NO_CRITICAL_PATH, problem=problem)
    return linked_parts([of_rank.parts for of_rank in found]), None, (without,)
