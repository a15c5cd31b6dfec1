"""`tracebraid advise`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rich.text import Text

import tracebraid
from tracebraid.api.advising import DEFAULT_MIN_SAVING, check_min_saving
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import exit_if_unreadable, note, progress, say, say_findings
from tracebraid.cli.parameters import Option
from tracebraid.cli.table_output import Format, TableOptions, with_table_options, write_json, write_table
from tracebraid.model.finding import Finding
from tracebraid.reports.advice import advice_data, advice_frame, advice_parts, missing_detector_lines
from tracebraid.reports.findings import without_worst_gap
from tracebraid.reports.machine import finding_data
from tracebraid.reports.verdict import verdict

_TOP = 10
"""Default number of printed items."""


@command(Group.LOOK, 2)
@with_job_options
@with_table_options
def advise(
    path: TracePath,
    job_options: JobOptions,
    table_options: TableOptions,
    rank: Annotated[int | None, Option("--rank", help="Only this rank.")] = None,
    min_saving: Annotated[
        str,
        Option(
            "--min-saving",
            metavar="1%|0.5ms",
            help="Leave out what saves less than this share of a step, or less than this time in each step.",
        ),
    ] = DEFAULT_MIN_SAVING,
    top: Annotated[int, Option("--top", min=1, metavar="N", help="Print the first N items.")] = _TOP,
) -> None:
    """List what to change to make steps shorter: the cause, the place and the estimated saving of each item."""
    target = table_options.target()
    target.refuse_existing()
    least = float(min_saving) if min_saving.replace(".", "", 1).isdecimal() else min_saving
    check_min_saving(least)
    with progress("answering") as update:
        job = job_options.open(path, update)
        advice = tracebraid.advise(job.only(rank), least)
    findings: Sequence[Finding] = job.findings
    if target.form is Format.JSON:
        data = {**advice_data(advice), "findings": [finding_data(finding) for finding in findings]}
        write_json(data, target)
    elif target.form is not None:
        write_table(advice_frame(advice), target)
    elif not advice.is_unanswerable:
        say(*advice_parts(advice, top))
        findings = without_worst_gap(findings)
    elif advice.is_unknown:
        say(*map(Text, verdict(advice)))
        findings = without_worst_gap(findings)
    say_findings(findings)
    for line in () if advice.is_unknown else missing_detector_lines(advice):
        note(line)
    if advice.is_unanswerable:
        raise SystemExit(1)
    exit_if_unreadable(job.findings)
