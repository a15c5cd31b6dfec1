"""`tracebraid diff`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

import tracebraid
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import JobOptions, path_or_url, with_job_options
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
from tracebraid.cli.report import is_page, report_target
from tracebraid.model.questions import GateOutcome
from tracebraid.reports.diff import diff_data, diff_parts_for_people

_PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")


@command(Group.COMPARE, 1, lambda options: (Extra.REPORT,) if is_page(options["out"]) else ())
@with_job_options
def diff(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="Baseline: a folder of traces, or one Kineto trace.", parser=path_or_url
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The run to compare with A.", parser=path_or_url)],
    job_options: JobOptions,
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
            help="For CI: exit with 1 if steps of B are slower by more than this, such as 5%, and chance does not "
            "explain it; also with too few steps (fewer than 6 of each run) to judge.",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="Print the first N rows of each table.")
    ] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write an HTML page (.html) or JSON (.json) to this new file."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
) -> None:
    """Compare two runs: whether steps are slower, the sources of the difference, changed ops and kernels."""
    target = None if out is None else report_target(out, False, False)
    if json and target is not None:
        raise typer.BadParameter(
            "--json goes to standard output: drop it, and let the file of -o end in .html or .json"
        )
    limit = None if fail_on_regression is None else _share(fail_on_regression)
    with progress("reading") as update:
        first = job_options.open(a, lambda share: update(share / 2))
        second = job_options.open(b, lambda share: update(0.5 + share / 2))
        found = tracebraid.diff(first, second, with_doubtful)
    findings = [*first.findings, *second.findings]
    if target is not None:
        target.show(
            tracebraid.comparison_report(found, title or f"{a} against {b}", limit=limit, findings=findings)
        )
        say_findings(findings)
    elif json:
        say_json(diff_data(found, findings, limit))
    else:
        width = output_width()
        findings = say_worst_gap(findings)
        say(*diff_parts_for_people(found, top, width), width=width)
        say_findings(findings)
    fails = limit is not None and _fails(found.gate(limit), limit)
    if fails:
        raise typer.Exit(1)
    exit_if_unreadable(findings)


def _fails(outcome: GateOutcome, limit: float) -> bool:
    if outcome is GateOutcome.REGRESSION:
        note(f"error: a step is slower by more than {limit * 100:g} %")
    elif outcome is GateOutcome.NOT_JUDGED:
        note(
            "error: cannot judge whether steps are slower: too few steps count, or they resemble each other too "
            "much; record 20 or more of each run after warm-up, such as by tracebraid capture --active 20"
        )
    return outcome is not GateOutcome.PASSED


def _share(text: str) -> float:
    found = _PERCENT.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"--fail-on-regression {text}: give a percentage, such as 5%")
    return float(found[1]) / 100
