"""`tracebraid analyze`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import polars as pl
from msgspec.structs import replace

from tracebraid import analyses
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, OptionalTracePath, with_job_options
from tracebraid.cli.output import (
    exit_if_unreadable,
    note,
    output_width,
    progress,
    say,
    say_findings,
    say_json,
    say_worst_gap,
)
from tracebraid.cli.parameters import Argument, Option
from tracebraid.cli.table_output import Format, TableOptions, Target, with_table_options, write_table
from tracebraid.errors import ArgumentError
from tracebraid.files import is_there
from tracebraid.model.analysis import Answer, JobAnalysis
from tracebraid.model.printable import printable
from tracebraid.reports.answers import (
    analyses_data,
    analyses_table,
    answer_parts,
    lacks_lines,
    no_rows_line,
    unmatched_line,
)

_TOP = 20
"""Default number of printed rows for each rank."""


@command(Group.LOOK, 3)
@with_job_options
@with_table_options
def analyze(
    job_options: JobOptions,
    table_options: TableOptions,
    name: Annotated[
        str | None,
        Argument(metavar="NAME", help="An analysis, such as idle_causes; --list names them."),
    ] = None,
    path: OptionalTracePath = None,
    list_all: Annotated[
        bool, Option("--list", help="List the analyses: what each answers, and what it needs.")
    ] = False,
    rank: Annotated[int | None, Option("--rank", help="Only this rank.")] = None,
    step: Annotated[
        str | None,
        Option("--step", metavar="N", help="Only this step, by its number or its whole name."),
    ] = None,
    per_step: Annotated[bool, Option("--per-step", help="Rows for each step.")] = False,
    with_doubtful: Annotated[
        bool,
        Option(
            "--with-doubtful",
            help="Count steps in means, too, whose figures are doubtful: see tracebraid analyze validity.",
        ),
    ] = False,
    peak_flops: Annotated[
        float | None, Option("--peak-flops", help="FLOP/s that the device can reach.")
    ] = None,
    peak_bandwidth: Annotated[
        float | None,
        Option(
            "--peak-bandwidth",
            help="Bytes/s that the device's memory, or for collectives the network, can reach.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="OPTION=VALUE",
            help="Another option of this analysis, such as max_ns=5000; can be repeated.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        Option(
            "--top",
            min=1,
            metavar="N",
            help=f"Print the first N rows, of each rank or of the whole job; {_TOP} by default.",
        ),
    ] = None,
) -> None:
    """Answer one question about a rank or the job: where time goes and why, what ops cost, what holds memory."""
    target = table_options.target()
    if list_all:
        _list(name, target)
        return
    if name is not None and path is None and not _is_analysis(name) and is_there(name):
        say(analyses_table(analyses.catalog()), f"Ask one of them: tracebraid analyze NAME {printable(name)}")
        raise SystemExit(2)
    if name is None:
        raise ArgumentError(
            "give the NAME of an analysis and a PATH, such as: breakdown FOLDER; --list names the analyses"
        )
    if top is not None and target.form is not None:
        raise ArgumentError("--top limits tables on the terminal, files get all rows: drop it")
    given: dict[str, object] = {
        "per_step": per_step or None,
        "with_doubtful": with_doubtful or None,
        "peak_flops": peak_flops,
        "peak_bandwidth": peak_bandwidth,
        **dict(map(_setting, settings or [])),
    }
    options = {option: value for option, value in given.items() if value is not None}
    name, path = _name_and_path(name, path)
    analysis = analyses.named(name)
    if path is None:
        raise ArgumentError(f"the PATH is missing: tracebraid analyze {analysis.name} PATH")
    analyses.check_options(analysis, options, step)
    check_peaks(options)
    of_job = isinstance(analysis, JobAnalysis)
    if of_job and rank is not None and all(column.name != "rank" for column in analysis.table.columns):
        raise ArgumentError(f"{analysis.name} compares all ranks: drop --rank")
    target.refuse_existing()
    with progress("answering") as update:
        job = job_options.open(path, update)
        of_rank = job.only(rank)
        answer = analyses.analyze(analysis.name, job if of_job else of_rank, step=step, **options)
    if of_job and rank is not None:
        answer = replace(answer, frame=answer.frame.filter(pl.col("rank") == rank))
    say_findings(job.findings if target.form is not None else say_worst_gap(job.findings))
    _show(answer, step, target, top or _TOP)
    exit_if_unreadable(job.findings)


def _show(answer: Answer, step: str | None, target: Target, top: int) -> None:
    """Write or print the answer and its missing data; exit with 1 if nothing could be answered."""
    for line in lacks_lines(answer):
        note(line)
    if answer.frame.is_empty() and not answer.is_matched and not answer.is_unanswerable:
        note(unmatched_line(answer))
    if answer.frame.is_empty() and (answer.is_unanswerable or not answer.is_matched):
        raise SystemExit(1)
    if target.form is not None:
        write_table(answer.frame, target)
    elif answer.frame.is_empty():
        say(no_rows_line(answer, step))
    else:
        width = output_width()
        say(*answer_parts(answer, top, width), width=width)


def check_peaks(options: Mapping[str, object]) -> None:
    """Reject peaks that are not above 0."""
    for option in ("peak_flops", "peak_bandwidth"):
        peak = options.get(option)
        if isinstance(peak, int | float) and not (peak > 0 and math.isfinite(peak)):
            raise ArgumentError(f"--{option.replace('_', '-')} is {peak:g}; it must be above 0")


def _name_and_path(name: str, path: str | None) -> tuple[str, str | None]:
    """Return the name of the analysis and the path, given in either order."""
    return (
        (path, name) if path is not None and _is_analysis(path) and not _is_analysis(name) else (name, path)
    )


def _is_analysis(name: str) -> bool:
    """Return whether an analysis has this name; `-` may replace `_`."""
    return name.replace("-", "_") in analyses.names()


def _list(name: str | None, target: Target) -> None:
    if name is not None:
        raise ArgumentError(f"--list lists all analyses: drop {name}, or drop --list to run it")
    if target.out is None and target.form is Format.JSON:
        say_json(analyses_data(analyses.catalog()))
    elif target.out is None and target.form is None:
        say(analyses_table(analyses.catalog()), width=output_width())
    else:
        raise ArgumentError("--list goes with --json only")


def _setting(text: str) -> tuple[str, Any]:
    """Parse `OPTION=VALUE`: the value as JSON if it is valid JSON, else as text; `1e6` is an integer."""
    option, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"--set {text}: give OPTION=VALUE")
    try:
        parsed: Any = msgspec.json.decode(value)
    except msgspec.DecodeError:
        parsed = value
    if isinstance(parsed, float) and parsed.is_integer():
        parsed = int(parsed)
    return option.replace("-", "_"), parsed
