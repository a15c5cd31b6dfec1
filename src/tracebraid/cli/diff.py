"""`tracebraid diff`."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, path_or_url, with_job_options
from tracebraid.cli.output import OfAll, note, output_width, progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, ask_ranks
from tracebraid.cli.report import report_target
from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.questions.comparison import GateOutcome
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.diff import diff_data, diff_parts_for_people

__all__ = ["diff"]

_PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")


@with_job_options
def diff(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="The run before: a folder of traces, or one Kineto trace.", parser=path_or_url
        ),
    ],
    b: Annotated[
        str, typer.Argument(metavar="B", help="The run after, which is compared with A.", parser=path_or_url)
    ],
    job_options: JobOptions,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
    with_doubtful: Annotated[
        bool,
        typer.Option(
            "--with-doubtful",
            help="Count steps, too, whose figures are doubtful: see tracebraid analyze validity.",
        ),
    ] = False,
    fail_on_regression: Annotated[
        str | None,
        typer.Option(
            "--fail-on-regression",
            metavar="PERCENT",
            help="For CI: exit code 1 if a step of B is slower by more than this, such as 5%, and chance does not "
            "explain it; also if nothing can be judged, as with fewer than 6 steps of each run.",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="Print the first N rows of each table.")
    ] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Write a page (.html), or all of it as JSON (.json), into this new file."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="What stands on top of the page.")] = None,
) -> None:
    """Compare two runs: is a step slower, where does that come from, which ops and kernels changed?"""
    target = None if out is None else report_target(out, False, False)
    if json and target is not None:
        raise typer.BadParameter("--json prints: leave it out, and let the file of -o end in .html or .json")
    limit = None if fail_on_regression is None else _share(fail_on_regression)
    findings: list[Finding] = []
    runs = []
    with progress("reading") as update:
        whole = OfAll(update, 2)
        for path in (a, b):
            job = job_options.open(path)
            findings += job.findings
            question = partial(api.profile_of_rank, annotation=annotation)
            runs.append(list(ask_ranks(job, job.ranks, question, whole, findings)))
            whole.next()
    try:
        found = api.diff_of_profiles(runs[0], runs[1], annotation, with_doubtful)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    if target is not None:
        target.show(api.comparison_report(found, title or f"{a} against {b}", limit=limit, findings=findings))
        say_findings(findings)
    elif json:
        say_json(diff_data(found, findings, limit))
    else:
        width = output_width()
        say(*diff_parts_for_people(found, top, width), width=width)
        say_findings(findings)
    fails = limit is not None and _fails(found.gate(limit), limit)
    if fails or any(finding.code is UNREADABLE for finding in findings):
        raise typer.Exit(1)


def _fails(outcome: GateOutcome, limit: float) -> bool:
    if outcome is GateOutcome.REGRESSION:
        note(f"error: a step is slower by more than {limit * 100:g} %")
    elif outcome is GateOutcome.NOT_JUDGED:
        note(
            "error: whether a step is slower could not be judged: too few steps count, or they resemble each other too "
            "much; record 20 or more of each run after warm-up, such as by tracebraid capture --active 20"
        )
    return outcome is not GateOutcome.PASSED


def _share(text: str) -> float:
    found = _PERCENT.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"--fail-on-regression {text}: give a percentage, such as 5%")
    return float(found[1]) / 100
