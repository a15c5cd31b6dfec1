"""What is known of a whole job before its ranks are written: clocks, collectives and the critical path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from tracebraid.api.critical_paths import critical_path_of_graph
from tracebraid.api.exports.collective_flows import collective_rates, joined_members
from tracebraid.api.exports.options import ExportOptions, ask_each
from tracebraid.api.exports.steps import SeenSteps
from tracebraid.api.graphing import RankOfGraph, graph_of_ranks, rank_of_graph
from tracebraid.api.job.aligning import linked_parts, rank_parts
from tracebraid.errors import ArgumentError, MissingLibraryError
from tracebraid.graph.critical_path.find_path import PathOptions
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.job import Job
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["FIRST_PASS", "JobFacts", "job_facts"]

FIRST_PASS = 0.5
"""Share of the progress that the first of two passes over the ranks makes."""


@dataclass(frozen=True, eq=False)
class JobFacts:
    """What is known of a job.

    Args:
        ranks: the ranks that can be read, on aligned clocks.
        only: the only rank, where there is no other: it need not be read again.
        earliest_ns: the first event of all, on aligned clocks; 0 without events.
        members: `joined_members`.
        rates: `collective_rates`.
        path: the critical path; None where there is none.
        findings: what was noticed about the job.
    """

    ranks: LinkedRanks
    only: LinkedTrace | None
    earliest_ns: int
    members: pl.DataFrame
    rates: pl.DataFrame
    path: CriticalPath | None
    findings: tuple[Finding, ...]


def job_facts(job: Job, options: ExportOptions) -> JobFacts:
    """Read each rank that is exported once.

    Raises:
        ArgumentError: there is no such rank or step.
        InputError: no rank can be read.
    """
    gathering = _Gathering(SeenSteps(options), options)
    ranks = job.ranks if options.rank is None else [options.rank]
    progress = options.progress
    half = replace(options, progress=None if progress is None else lambda done: progress(done * FIRST_PASS))
    for linked in ask_each(job, half, gathering.take if len(ranks) > 1 else gathering.take_only, []):
        gathering.only = linked
    gathering.steps.check()
    linked_ranks, path = gathering.joined()
    starts = pl.DataFrame(gathering.starts, schema={"rank": pl.Int64, "ts_ns": pl.Int64}, orient="row")
    earliest = linked_ranks.aligned(starts, "ts_ns").get_column("ts_ns").min()
    return JobFacts(
        linked_ranks,
        gathering.only,
        earliest if isinstance(earliest, int) else 0,
        joined_members(linked_ranks, options.step_names),
        collective_rates(linked_ranks),
        path,
        tuple(gathering.findings),
    )


@dataclass
class _Gathering:
    """What is taken of the ranks, one after the other."""

    steps: SeenSteps
    options: ExportOptions
    only: LinkedTrace | None = None
    parts: list[RankParts] = field(default_factory=list)
    graphs: list[RankOfGraph] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def take_only(self, linked: LinkedTrace) -> LinkedTrace:
        """Take what is kept of the only rank, and return it, to be written next."""
        self.take(linked)
        return linked

    def take(self, linked: LinkedTrace) -> None:
        """Take what is kept of a rank; what of its files cannot be read is met here."""
        if linked.has_et:
            linked.compute_all()
        self.steps.see(linked)
        start = linked.timeline.events.get_column("ts_ns").min()
        graph = self._graph(linked)
        parts = rank_parts(linked, self.options.annotation) if graph is None else graph.parts
        self.parts.append(parts)
        if graph is not None:
            self.graphs.append(graph)
        if isinstance(start, int):
            self.starts.append((linked.rank, start))

    def joined(self) -> tuple[LinkedRanks, CriticalPath | None]:
        """The ranks linked with each other, and the critical path over those that are shown."""
        if len(self.graphs) == len(self.parts):
            try:
                graph = graph_of_ranks(self.graphs, self.options.annotation)
                path = critical_path_of_graph(
                    graph, PathOptions(self.options.step, None, 0), with_error=False
                )
            except (ArgumentError, MissingLibraryError) as error:
                self._leave_out_path(error)
            else:
                return graph.ranks, path
        return linked_parts(self.parts), None

    def _graph(self, linked: LinkedTrace) -> RankOfGraph | None:
        if self.findings:
            return None
        try:
            return rank_of_graph(linked, self.options.annotation)
        except MissingLibraryError as error:
            self._leave_out_path(error)
            return None

    def _leave_out_path(self, error: Exception) -> None:
        self.findings.append(Finding.of(FindingCode.NO_CRITICAL_PATH, problem=str(error)))
