"""`tracebraid analyze`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec
import polars as pl
import typer

from tracebraid import api
from tracebraid.cli.analysis_question import Question, RankNotes, question_of
from tracebraid.cli.job_options import JobOptions, OptionalTracePath, with_job_options
from tracebraid.cli.output import note, output_width, progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, ask_ranks, asked_ranks
from tracebraid.cli.table_output import Format, TableOptions, Target, with_table_options, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.questions.analysis import Answer
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.answers.analyses import analyses_data, analyses_table
from tracebraid.reports.answers.answers import answer_parts, lacks_lines, no_rows_line, unmatched_line

__all__ = ["analyze"]

T = TypeVar("T")

_TOP = 20
"""Rows of each rank that are printed, if --top does not say otherwise."""


@with_job_options
@with_table_options
def analyze(
    job_options: JobOptions,
    table_options: TableOptions,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="An analysis, such as idle_causes; --list names them."),
    ] = None,
    path: OptionalTracePath = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the analyses: what each answers, and what it needs.")
    ] = False,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="N", help="Only this step, by its number or its whole name."),
    ] = None,
    per_step: Annotated[bool, typer.Option("--per-step", help="Rows for each step.")] = False,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
    with_doubtful: Annotated[
        bool,
        typer.Option(
            "--with-doubtful",
            help="Count steps in means, too, whose figures are doubtful: see tracebraid analyze validity.",
        ),
    ] = False,
    peak_flops: Annotated[
        float | None, typer.Option("--peak-flops", help="FLOP/s that the device can reach.")
    ] = None,
    peak_bandwidth: Annotated[
        float | None,
        typer.Option(
            "--peak-bandwidth",
            help="Bytes/s that the device's memory, or for collectives the network, can reach.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="OPTION=VALUE",
            help="Another option of this analysis, such as max_ns=5000; can be repeated.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            min=1,
            metavar="N",
            help=f"Print the first N rows, of each rank or of the whole job; {_TOP} by default.",
        ),
    ] = None,
) -> None:
    """Answer one question about a rank or all ranks: where time goes and why, what ops cost, what holds memory."""
    target = table_options.target()
    if list_all:
        _list(name, target)
        return
    if name is None:
        raise typer.BadParameter("give the NAME of an analysis and a PATH; --list names the analyses")
    if top is not None and target.form is not None:
        raise typer.BadParameter("--top is about tables for people; files get all rows: leave it out")
    given: dict[str, object] = {
        "per_step": per_step or None,
        "annotation": annotation if annotation != PROFILER_STEP else None,
        "with_doubtful": with_doubtful or None,
        "peak_flops": peak_flops,
        "peak_bandwidth": peak_bandwidth,
        **dict(map(_setting, settings or [])),
    }
    options = {option: value for option, value in given.items() if value is not None}
    question, path = question_of(name, path, options, step, annotation)
    target.refuse_existing()
    job = job_options.open(path)
    ranks = asked_ranks(job, rank)
    findings: list[Finding] = []
    with progress("reading") as update:
        if isinstance(question.analysis, JobAnalysis):
            answer = _ask_job(job, rank, question, update, findings)
        else:
            answer = _ask(job, ranks, question, update, findings)
    say_findings(findings)
    _show(answer, question, target, top or _TOP)
    if any(finding.code is UNREADABLE for finding in findings):
        raise typer.Exit(1)


def _ask(
    job: Job, ranks: list[int], question: Question, update: api.Progress, findings: list[Finding]
) -> Answer:
    """The answer of all ranks; what was noticed in their traces is added to the findings."""
    findings += job.findings
    try:
        answers = _noted(question, ask_ranks(job, ranks, question.of_rank, update, findings))
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    question.check_steps()
    lacks = {rank: needs for answer in answers for rank, needs in answer.lacks.items()}
    return Answer(answers[0].analysis, pl.concat(answer.frame for answer in answers), lacks)


def _ask_job(
    job: Job, rank: int | None, question: Question, update: api.Progress, findings: list[Finding]
) -> Answer:
    """The answer over all ranks, or its rows of a rank; what was noticed is added to the findings."""
    if rank is not None and all(column.name != "rank" for column in question.analysis.table.columns):
        raise typer.BadParameter(f"{question.analysis.name} is about all ranks together: leave out --rank")
    findings += job.findings
    parts = _noted(question, ask_ranks(job, job.ranks, question.part_of_rank, update, findings))
    question.check_steps()
    try:
        return question.over_ranks(findings, parts, rank)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error


def _noted(question: Question, answers: Iterable[tuple[T, RankNotes]]) -> list[T]:
    """The answers of the ranks; what goes with each is kept with the question."""
    found = []
    for answer, notes in answers:
        question.note(notes)
        found.append(answer)
    return found


def _show(answer: Answer, question: Question, target: Target, top: int) -> None:
    """Write or print the answer and what it lacks; exit code 1 where nothing could be answered."""
    for line in lacks_lines(answer):
        note(line)
    if answer.frame.is_empty() and not question.is_matched:
        note(unmatched_line(answer))
    if answer.frame.is_empty() and (answer.is_unanswerable or not question.is_matched):
        raise typer.Exit(1)
    if target.form is not None:
        write_table(answer.frame, target)
    elif answer.frame.is_empty():
        say(no_rows_line(answer, question.step))
    else:
        width = output_width()
        say(*answer_parts(answer, top, width, question.starts), width=width)


def _list(name: str | None, target: Target) -> None:
    if name is not None:
        raise typer.BadParameter(f"--list lists all analyses: leave out {name}, or --list to ask it")
    if target.out is None and target.form is Format.JSON:
        say_json(analyses_data(api.analyses()))
    elif target.out is None and target.form is None:
        say(analyses_table(api.analyses()), width=output_width())
    else:
        raise typer.BadParameter("--list goes with --json only")


def _setting(text: str) -> tuple[str, Any]:
    """`OPTION=VALUE`; the value as JSON where it is some, else as text; `1e6` is a whole number."""
    option, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set {text}: give OPTION=VALUE")
    try:
        parsed: Any = msgspec.json.decode(value)
    except msgspec.DecodeError:
        parsed = value
    if isinstance(parsed, float) and parsed.is_integer():
        parsed = int(parsed)
    return option.replace("-", "_"), parsed
