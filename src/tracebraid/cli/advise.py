"""`tracebraid advise`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import note, progress, say, say_findings
from tracebraid.cli.ranks import UNREADABLE, ask_ranks, asked_ranks
from tracebraid.cli.table_output import Format, TableOptions, with_table_options, write_json, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.advice import Advice
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.advice import advice_data, advice_frame, advice_parts, not_asked_lines
from tracebraid.reports.machine import finding_data

__all__ = ["advise"]

_TOP = 10
"""Items that are printed, if --top does not say otherwise."""


@with_job_options
@with_table_options
def advise(
    path: TracePath,
    job_options: JobOptions,
    table_options: TableOptions,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
    min_saving: Annotated[
        str,
        typer.Option(
            "--min-saving",
            metavar="1%|0.5ms",
            help="Leave out what saves less than this share of a step, or less than this time in each step.",
        ),
    ] = api.DEFAULT_MIN_SAVING,
    by_graph: Annotated[
        bool,
        typer.Option(
            "--by-graph",
            help="Replay the dependency graph without what each item names, and rank by what that gains.",
        ),
    ] = False,
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="Print the first N items.")] = _TOP,
) -> None:
    """Say what would make the steps shorter, by how much at most, and where: anti-patterns and what mends them."""
    target = table_options.target()
    target.refuse_existing()
    least = float(min_saving) if min_saving.replace(".", "", 1).isdecimal() else min_saving
    try:
        api.check_min_saving(least)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    job = job_options.open(path)
    ranks = asked_ranks(job, rank)
    found = list(job.findings)
    advice = _advice(job, ranks, _Asked(annotation, least, by_graph), found)
    findings = [*found, *(finding for finding in advice.findings if finding not in found)]
    if target.form is Format.JSON:
        data = {**advice_data(advice), "findings": [finding_data(finding) for finding in findings]}
        write_json(data, target)
    elif target.form is not None:
        write_table(advice_frame(advice), target)
    elif not advice.is_unanswerable:
        say(*advice_parts(advice, top))
    say_findings(findings)
    for line in not_asked_lines(advice):
        note(line)
    if advice.is_unanswerable or any(finding.code is UNREADABLE for finding in findings):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Asked:
    """What is asked of the ranks: what marks a step, the least saving, and whether the graph is replayed."""

    annotation: str
    min_saving: str | float
    by_graph: bool


def _of_rank(
    asked: _Asked, known: api.KnownDetectors, linked: LinkedTrace
) -> tuple[api.RankAdvice, api.RankOfGraph | None]:
    advice = api.rank_advice(linked, known, asked.annotation)
    return advice, api.rank_of_graph(linked, asked.annotation) if asked.by_graph else None


def _advice(job: Job, ranks: list[int], asked: _Asked, findings: list[Finding]) -> Advice:
    """The advice of some ranks together; what was noticed in their traces is added to the findings."""
    known = api.known_detectors()
    question = partial(_of_rank, asked, known)
    with progress("reading") as update:
        found = list(ask_ranks(job, ranks, question, update, findings))
        parts = [part for _, part in found if part is not None]
        graph = api.graph_of_ranks(parts, asked.annotation) if parts else None
    return api.advice_of_ranks([advice for advice, _ in found], known, asked.min_saving, graph)
