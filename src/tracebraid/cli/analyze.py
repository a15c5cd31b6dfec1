"""`tracebraid analyze`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
import typer

from tracebraid import api
from tracebraid.cli.output import note, progress, say, say_findings, say_json
from tracebraid.cli.ranks import ask_ranks
from tracebraid.cli.table_output import Format, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.analysis import Answer
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.analyses import analyses_data, analyses_table, answer_table, lacks_lines

__all__ = ["analyze"]


def analyze(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An analysis; --list names them.")
    ] = None,
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.")
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the analyses: what each answers, and what it needs.")
    ] = False,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="N", help="Only this step, by its number or its whole name."),
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", help="Which window of a capture, from 0; by default the last.")
    ] = None,
    per_step: Annotated[bool, typer.Option("--per-step", help="Rows for each step.")] = False,
    annotation: Annotated[
        str, typer.Option("--annotation", help="The annotation that marks a step.")
    ] = PROFILER_STEP,
    with_doubtful: Annotated[
        bool, typer.Option("--with-doubtful", help="Count doubtful steps in means, too.")
    ] = False,
    peak_flops: Annotated[
        float | None, typer.Option("--peak-flops", help="FLOP/s that the device can reach.")
    ] = None,
    peak_bandwidth: Annotated[
        float | None, typer.Option("--peak-bandwidth", help="Bytes/s that the device's memory can reach.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Another option of the analysis."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows to print for people.")] = 20,
    csv: Annotated[bool, typer.Option("--csv", help="Write all rows as CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write all rows as a JSON list of objects.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write all rows as Parquet.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write into this new file.")] = None,
) -> None:
    """Answer one question about a rank or all ranks: where time goes and why, what ops cost, what holds memory."""
    form = _format(csv, json, parquet, out)
    if list_all:
        _list(form)
        return
    if name is None or path is None:
        raise typer.BadParameter("give the NAME of an analysis and a PATH; --list names the analyses")
    given: dict[str, object] = {
        "per_step": per_step or None,
        "annotation": annotation if annotation != PROFILER_STEP else None,
        "with_doubtful": with_doubtful or None,
        "peak_flops": peak_flops,
        "peak_bandwidth": peak_bandwidth,
        **dict(map(_setting, settings or [])),
    }
    options = {option: value for option, value in given.items() if value is not None}
    question = _question(name, options, step, annotation)
    job = api.open(path, window=window)
    if rank is not None and rank not in job.ranks:
        have = ", ".join(map(str, job.ranks))
        raise typer.BadParameter(f"{path} has no Kineto trace of rank {rank}; it has ranks {have}")
    with progress("reading") as update:
        answer, findings = _ask(job, job.ranks if rank is None else [rank], question, update)
    _show(answer, findings, form, out, top)


@dataclass
class _Question:
    name: str
    options: dict[str, object]
    step: str | None
    annotation: str
    steps_seen: list[str]

    def of_rank(self, findings: list[Finding], linked: LinkedTrace) -> Answer:
        answer = api.analyze(self.name, linked, **self.options)
        findings += linked.known_findings
        if self.step is None:
            return answer
        names = api.steps(linked, self.annotation).get_column("step")
        self.steps_seen += [name for name in names.to_list() if name not in self.steps_seen]
        frame = answer.frame.filter(pl.col("step").is_in([self.step, f"{self.annotation}#{self.step}"]))
        return Answer(answer.analysis, frame, answer.lacks)


def _question(name: str, options: dict[str, object], step: str | None, annotation: str) -> _Question:
    """The question, with its name and options checked before anything is read."""
    wanted = name.replace("-", "_")
    analysis = next((analysis for analysis in api.analyses() if analysis.name == wanted), None)
    if analysis is None:
        raise typer.BadParameter(f"there is no analysis {name!r}; tracebraid analyze --list names them")
    unknown = [option for option in options if option not in analysis.options]
    if unknown:
        have = ", ".join(analysis.options) or "none"
        raise typer.BadParameter(f"{analysis.name} has no option {unknown[0]!r}; it has: {have}")
    if step is not None:
        if all(column.name != "step" for column in analysis.table.columns):
            raise typer.BadParameter(f"{analysis.name} does not go by steps: leave out --step")
        if "per_step" in analysis.options:
            options = {**options, "per_step": True}
    return _Question(analysis.name, options, step, annotation, [])


def _ask(
    job: Job, ranks: list[int], question: _Question, update: api.Progress
) -> tuple[Answer, list[Finding]]:
    findings = list(job.findings)
    try:
        answers = list(ask_ranks(job, ranks, partial(question.of_rank, findings), update, findings))
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    if question.step is not None and not {question.step, f"{question.annotation}#{question.step}"} & set(
        question.steps_seen
    ):
        have = ", ".join(question.steps_seen) or "none"
        raise typer.BadParameter(f"there is no step {question.step}; there are: {have}")
    lacks = {rank: needs for answer in answers for rank, needs in answer.lacks.items()}
    return Answer(answers[0].analysis, pl.concat(answer.frame for answer in answers), lacks), findings


def _show(answer: Answer, findings: list[Finding], form: Format | None, out: Path | None, top: int) -> None:
    """Write or print the answer and what it lacks; exit code 1 where nothing could be answered."""
    for line in lacks_lines(answer):
        note(line)
    say_findings(findings)
    if answer.is_unanswerable and answer.frame.is_empty():
        raise typer.Exit(1)
    if form is not None:
        write_table(answer.frame, form, out)
    elif answer.frame.is_empty():
        note(f"note: {answer.analysis.name} has no rows. {answer.analysis.table.doc}")
    else:
        say(answer_table(answer, top))


def _list(form: Format | None) -> None:
    if form is Format.JSON:
        say_json(analyses_data(api.analyses()))
    elif form is None:
        say(analyses_table(api.analyses()))
    else:
        raise typer.BadParameter("--list goes with --json only")


def _format(csv: bool, json: bool, parquet: bool, out: Path | None) -> Format | None:
    """The format that was asked for, by option or by the name of the file."""
    asked: Mapping[Format, bool] = {Format.CSV: csv, Format.JSON: json, Format.PARQUET: parquet}
    forms = [form for form, wanted in asked.items() if wanted]
    if len(forms) > 1:
        raise typer.BadParameter("give one of --csv, --json and --parquet")
    if forms or out is None:
        return forms[0] if forms else None
    by_name = next((form for form in Format if out.name.endswith(f".{form.value}")), None)
    if by_name is None:
        raise typer.BadParameter(f"{out} ends in none of .csv, .json, .parquet: give one of these options")
    return by_name


def _setting(text: str) -> tuple[str, Any]:
    """`OPTION=VALUE`; the value as JSON where it is some, else as text."""
    option, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set {text}: give OPTION=VALUE")
    try:
        parsed: Any = msgspec.json.decode(value)
    except msgspec.DecodeError:
        parsed = value
    return option.replace("-", "_"), parsed
