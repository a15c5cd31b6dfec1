"""`tracebraid summary`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import polars as pl
from msgspec import Struct, field
from rich.text import Text

from tracebraid import analyses
from tracebraid.api import advising
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import (
    exit_if_unreadable,
    output_width,
    progress,
    say,
    say_findings,
    say_json,
)
from tracebraid.cli.parameters import Option
from tracebraid.errors import InputError
from tracebraid.model.engine import Job, Questions
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Advice
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.advice import verdict_data
from tracebraid.reports.answers import idle_tables
from tracebraid.reports.breakdown_bars import breakdown_bars, skew_lines, step_sparklines
from tracebraid.reports.findings import without_worst_gap
from tracebraid.reports.machine import coverage_data, finding_data, rows_data
from tracebraid.reports.terminal import breakdown_table, kernels_table, launchers_line, ops_table
from tracebraid.reports.verdict import verdict

_CAUSES_SHOWN = 5
"""Number of causes of idle time for each device."""
_OF_RANKS = "Which rank the others wait for, and why: tracebraid analyze stragglers; what would help: tracebraid advise"
"""Maximum number of ranks with a breakdown each."""

_MOST_JUDGED = 16
"""Maximum ranks of a job for which the verdict is computed by default."""
_NO_VERDICT = "What bounds the steps, and what to change first: tracebraid advise"
"""Replacement of the verdict for large jobs, or if an extra is missing."""


@command(Group.LOOK, 1)
@with_job_options
def summary(
    path: TracePath,
    job_options: JobOptions,
    top: Annotated[int, Option("--top", min=1, help="Rows of kernels and ops to show.")] = 10,
    rank: Annotated[int | None, Option("--rank", help="Only this rank.")] = None,
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Show what bounds the steps and where the time goes, by rank and step, with the top kernels and ops."""
    with progress("answering") as update:
        job = job_options.open(path, update)
        found = summarise(job.only(rank), json)
    if json:
        findings = [finding_data(finding) for finding in job.findings]
        judged = None
        if found.advice is not None:
            judged = {**verdict_data(found.advice), "items": rows_data(found.advice.items)}
        data = {"verdict": found.verdict, "judged": judged, "ranks": found.ranks, "findings": findings}
        say_json(data)
    else:
        say_verdict(found)
        show_tables(found, top, job.annotation)
        say_findings(without_worst_gap(job.findings) if found.verdict else job.findings)
    exit_if_unreadable(job.findings)


class RankDetails(Struct, frozen=True, eq=False):
    """Details of one rank beside its breakdown: a table of each analysis."""

    rank: int
    kernels: pl.DataFrame
    ops: pl.DataFrame
    launchers: pl.DataFrame
    causes: pl.DataFrame
    blame: pl.DataFrame


class RankSummary(Struct, frozen=True, eq=False):
    """Answers of a rank: its breakdown, details of the one that is shown, and all as JSON if requested."""

    rank: int
    breakdown: pl.DataFrame
    details: RankDetails | None
    data: dict[str, Any] | None


class Summary(Struct):
    """The verdict, breakdowns of all ranks, details of the first; with `whole`, details of each rank."""

    read: list[int] = field(default_factory=list)
    breakdowns: list[pl.DataFrame] = field(default_factory=list)
    first: RankDetails | None = None
    ranks: list[dict[str, Any]] = field(default_factory=list)
    advice: Advice | None = None

    @property
    def verdict(self) -> list[str]:
        """The sentences of the verdict; [] where there is none."""
        return [] if self.advice is None else verdict(self.advice)

    def add(self, of_rank: RankSummary) -> None:
        """Add the answers of a rank."""
        self.read.append(of_rank.rank)
        self.breakdowns.append(of_rank.breakdown)
        self.first = self.first or of_rank.details
        if of_rank.data is not None:
            self.ranks.append(of_rank.data)


def summarise(job: Job, whole: bool) -> Summary:
    """Summarise a job in one pass: breakdowns of all ranks, kernels and ops of the first or (`whole`) of each."""
    questions = {summarise_rank: partial(summarise_rank, whole=whole, detailed=job.ranks[0])}
    found = Summary(advice=advice_beside(job, questions))
    for answers in job.take(questions):
        found.add(answers[summarise_rank])
    if found.first is None:
        # The first rank could not be read: the tables of the next are shown.
        found.first = next(job.each(_details, [found.read[0]]))
    return found


def advice_beside(job: Job, questions: Questions) -> Advice | None:
    """Ask for advice in one pass with other questions; None for large jobs, and where it cannot be given."""
    # The graph of a large job takes minutes.
    if len(job.ranks) > _MOST_JUDGED:
        return None
    try:
        return advising.advice_beside(job, questions)
    except InputError as error:
        # Too many steps at once for a graph; files that cannot be read end the pass of the questions, too.
        job.add_findings([Finding.of(FindingCode.NO_CRITICAL_PATH, problem=error.problem)])
        return None


def say_verdict(found: Summary) -> None:
    """Print what bounds the steps."""
    say(*map(Text, found.verdict or [_NO_VERDICT]), "")


def summarise_rank(linked: LinkedTrace, whole: bool, detailed: int | None) -> RankSummary:
    """Compute the answers of a rank.

    Args:
        linked: the rank.
        whole: whether to compute all answers, for JSON.
        detailed: the rank that is shown in detail.
    """
    breakdown = analyses.breakdown(linked)
    details = _details(linked) if whole or linked.rank == detailed else None
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


def _details(linked: LinkedTrace) -> RankDetails:
    return RankDetails(
        linked.rank,
        analyses.kernels(linked),
        analyses.ops(linked),
        analyses.launchers(linked),
        analyses.idle_causes(linked),
        analyses.idle_blame(linked),
    )


def show_tables(found: Summary, top: int, annotation: str = PROFILER_STEP) -> None:
    """Print the breakdown of all ranks, and the top kernels and ops of the first."""
    assert found.first is not None, "a job has at least one rank with a Kineto trace"
    first, breakdowns = found.first, pl.concat(found.breakdowns)
    width = output_width()
    if breakdowns.is_empty():
        return
    say(breakdown_table(breakdowns, width))
    lines = [*breakdown_bars(breakdowns), *step_sparklines(breakdowns)]
    if found.advice is not None:
        lines += skew_lines(breakdowns, found.advice)
    if lines:
        say(*map(Text, lines), "")
    if len(found.breakdowns) > 1:
        say(f"Idle time, kernels and ops of rank {first.rank}; --rank shows another.")
    say(*idle_tables(first.causes, first.blame, _CAUSES_SHOWN, width))
    if not first.kernels.is_empty():
        say(kernels_table(first.kernels, top, width), launchers_line(first.launchers))
        say(ops_table(first.ops, top, "device", annotation, width))
    say(ops_table(first.ops, top, "host", annotation, width))
    if len(found.breakdowns) > 1 and any((frame["communication_ns"] > 0).any() for frame in found.breakdowns):
        say(_OF_RANKS)
