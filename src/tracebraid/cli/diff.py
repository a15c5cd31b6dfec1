"""`tracebraid diff`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import tracebraid
from tracebraid.cli.commands import BETWEEN_SIDES, Extra, Group, command
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
from tracebraid.cli.parameters import Argument, Option
from tracebraid.cli.report import is_page, report_target
from tracebraid.errors import ArgumentError
from tracebraid.model.engine import Job
from tracebraid.model.questions import GateOutcome
from tracebraid.reports.diff import diff_data, diff_parts_for_people, gate_line

_PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")


_NOT_JUDGED = 3
"""Exit code of a gate that cannot judge."""
_SIDES = "tracebraid diff A B, or with several captures tracebraid diff A1 A2 A3 -- B1 B2 B3"


@command(Group.COMPARE, 1, lambda options: (Extra.REPORT,) if is_page(options["out"]) else (), two_sides=True)
@with_job_options
def diff(
    paths: Annotated[
        list[str],
        Argument(
            metavar="A... [--] B...",
            help="The baseline and the run to compare with it: a folder of traces or one Kineto trace of each, or "
            "several captures of each on both sides of --.",
            parser=path_or_url,
        ),
    ],
    job_options: JobOptions,
    with_doubtful: Annotated[
        bool,
        Option(
            "--with-doubtful",
            help="Count steps, too, whose figures are doubtful: see tracebraid analyze validity.",
        ),
    ] = False,
    fail_on_regression: Annotated[
        str | None,
        Option(
            "--fail-on-regression",
            metavar="PERCENT",
            help="For CI: exit with 1 if steps of B are slower by more than this, such as 5%, and the differences "
            "between captures of one run do not explain it; with 3 if that cannot be judged, as with fewer than 3 "
            "captures of each.",
        ),
    ] = None,
    top: Annotated[
        int, Option("--top", min=1, metavar="N", help="Print the first N rows of each table.")
    ] = 10,
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
    out: Annotated[
        Path | None,
        Option("-o", "--output", help="Write an HTML page (.html) or JSON (.json) to this new file."),
    ] = None,
    title: Annotated[str | None, Option("--title", help="Title of the page.")] = None,
) -> None:
    """Compare two runs: whether steps are slower, the sources of the difference, changed ops and kernels.

    Several captures of each run show how much captures of one program differ: tracebraid diff A1 A2 A3 -- B1 B2 B3.

    Exit code with --fail-on-regression: 0 not slower, 1 slower (or bad input), 3 cannot be judged.
    """
    target = None if out is None else report_target(out, False, False)
    if json and target is not None:
        raise ArgumentError(
            "--json goes to standard output: drop it, and let the file of -o end in .html or .json"
        )
    limit = None if fail_on_regression is None else _share(fail_on_regression)
    a, b = _sides(paths)
    count = len(a) + len(b)
    with progress("answering") as update:

        def opened(number: int, path: str) -> Job:
            return job_options.open(path, lambda share: update((number + share) / count))

        jobs = [opened(number, path) for number, path in enumerate([*a, *b])]
        found = tracebraid.diff(jobs[: len(a)], jobs[len(a) :], with_doubtful)
    findings = [finding for job in jobs for finding in job.findings]
    if target is not None:
        runs = " against ".join(", ".join(side) for side in (a, b))
        target.show(tracebraid.comparison_report(found, title or runs, limit=limit, findings=findings))
        say_findings(findings)
    elif json:
        say_json(diff_data(found, findings, limit))
    else:
        width = output_width()
        findings = say_worst_gap(findings)
        say(*diff_parts_for_people(found, top, width), width=width)
        say_findings(findings)
    if limit is not None and (outcome := found.gate(limit)) is not GateOutcome.PASSED:
        note(f"error: {gate_line(found, limit)}")
        raise SystemExit(1 if outcome is GateOutcome.REGRESSION else _NOT_JUDGED)
    exit_if_unreadable(findings)


def _sides(paths: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at `--`; two need none."""
    if BETWEEN_SIDES in paths:
        place = paths.index(BETWEEN_SIDES)
        a, b = paths[:place], paths[place + 1 :]
    elif len(paths) == 2:
        a, b = paths[:1], paths[1:]
    else:
        raise ArgumentError(f"give A and B, and -- between them if one has several captures: {_SIDES}")
    for name, side in (("A", a), ("B", b)):
        if not side:
            raise ArgumentError(f"no capture of {name}: {_SIDES}")
    return a, b


def _share(text: str) -> float:
    found = _PERCENT.fullmatch(text)
    if found is None:
        raise ArgumentError(f"--fail-on-regression {text}: give a percentage, such as 5%")
    return float(found[1]) / 100
