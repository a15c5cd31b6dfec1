"""`tracebraid summary`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import polars as pl
import typer
from rich.text import Text

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, ask_ranks, asked_ranks
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.answers.idle import idle_tables
from tracebraid.reports.breakdown_bars import breakdown_bars, step_sparklines
from tracebraid.reports.machine import coverage_data, finding_data, rows_data
from tracebraid.reports.terminal import breakdown_table, kernels_table, launchers_line, ops_table

_CAUSES_SHOWN = 5
"""Causes of idle time for each device."""
_OF_RANKS = "Which rank the others wait for, and why: tracebraid analyze stragglers; what would help: tracebraid advise"
"""Where the ranks' own breakdowns end."""

__all__ = ["RankDetails", "RankSummary", "Summary", "show_tables", "summarise", "summarise_rank", "summary"]


@with_job_options
def summary(
    path: TracePath,
    job_options: JobOptions,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of kernels and ops to show.")] = 10,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="The annotation that marks a step.")
    ] = PROFILER_STEP,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say where the time goes: the breakdown of each rank and step, the top kernels, the top ops."""
    with progress("reading") as update:
        found = summarise(job_options.open(path), rank, annotation, json, update)
    if json:
        say_json({"ranks": found.ranks, "findings": [finding_data(finding) for finding in found.findings]})
    else:
        show_tables(found, top, annotation)
        say_findings(found.findings)
    if any(finding.code is UNREADABLE for finding in found.findings):
        raise typer.Exit(1)


@dataclass(frozen=True, eq=False)
class RankDetails:
    """What is shown of one rank beside its breakdown: a table of each analysis."""

    rank: int
    kernels: pl.DataFrame
    ops: pl.DataFrame
    launchers: pl.DataFrame
    causes: pl.DataFrame
    blame: pl.DataFrame


@dataclass(frozen=True, eq=False)
class RankSummary:
    """The answers of a rank: its breakdown, more of the one that is shown, and all as JSON where that is asked for."""

    rank: int
    breakdown: pl.DataFrame
    details: RankDetails | None
    data: dict[str, Any] | None


@dataclass
class Summary:
    """What was found: breakdowns of all ranks, the rest of the first; with `whole` all of each rank."""

    findings: list[Finding]
    read: list[int] = field(default_factory=list)
    breakdowns: list[pl.DataFrame] = field(default_factory=list)
    first: RankDetails | None = None
    ranks: list[dict[str, Any]] = field(default_factory=list)

    def add(self, of_rank: RankSummary) -> None:
        """Add the answers of a rank."""
        self.read.append(of_rank.rank)
        self.breakdowns.append(of_rank.breakdown)
        self.first = self.first or of_rank.details
        if of_rank.data is not None:
            self.ranks.append(of_rank.data)


def summarise(job: Job, rank: int | None, annotation: str, whole: bool, update: api.Progress) -> Summary:
    """Ask all ranks, or one, for their breakdown, and the first or (`whole`) each for its kernels and ops."""
    found = Summary(list(job.findings))
    ranks = asked_ranks(job, rank)
    question = partial(summarise_rank, annotation=annotation, whole=whole, detailed=ranks[0])
    for of_rank in ask_ranks(job, ranks, question, update, found.findings):
        found.add(of_rank)
    if found.first is None and found.read:
        # The first rank could not be read: the tables of the next are shown.
        found.first = next(job.each(partial(_details, annotation=annotation), [found.read[0]]))
    return found


def summarise_rank(linked: LinkedTrace, annotation: str, whole: bool, detailed: int | None) -> RankSummary:
    """The answers of a rank.

    Args:
        linked: the rank.
        annotation: what marks a step.
        whole: whether all of them are for machines.
        detailed: the rank of which more is shown than its breakdown.
    """
    breakdown = api.breakdown(linked, annotation)
    details = _details(linked, annotation) if whole or linked.rank == detailed else None
    data = None
    if details is not None and whole:
        tables = {
            "breakdown": breakdown,
            "idle_causes": details.causes,
            "kernels": details.kernels,
            "launchers": details.launchers,
            "ops": details.ops,
        }
        rows = {name: rows_data(frame) for name, frame in tables.items()}
        data = {**coverage_data(linked.rank, linked.coverage), **rows}
    return RankSummary(linked.rank, breakdown, details, data)


def _details(linked: LinkedTrace, annotation: str) -> RankDetails:
    return RankDetails(
        linked.rank,
        api.kernels(linked),
        api.ops(linked),
        api.launchers(linked),
        api.idle_causes(linked, annotation=annotation),
        api.idle_blame(linked, annotation=annotation),
    )


def show_tables(found: Summary, top: int, annotation: str = PROFILER_STEP) -> None:
    """Print the breakdown of all ranks, and the top kernels and ops of the first."""
    assert found.first is not None, "a job has at least one rank with a Kineto trace"
    first, breakdowns = found.first, pl.concat(found.breakdowns)
    say(breakdown_table(breakdowns))
    lines = [*breakdown_bars(breakdowns), *step_sparklines(breakdowns)]
    if lines:
        say(*map(Text, lines), "")
    if len(found.breakdowns) > 1:
        say(f"Idle time, kernels and ops of rank {first.rank}; --rank shows another.")
    say(*idle_tables(first.causes, first.blame, _CAUSES_SHOWN))
    if not first.kernels.is_empty():
        say(kernels_table(first.kernels, top), launchers_line(first.launchers))
        say(ops_table(first.ops, top, "device", annotation))
    say(ops_table(first.ops, top, "host", annotation))
    if len(found.breakdowns) > 1 and any((frame["communication_ns"] > 0).any() for frame in found.breakdowns):
        say(_OF_RANKS)
