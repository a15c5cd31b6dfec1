"""`tracebraid report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import json_bytes, note, output_width, progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, asked_ranks
from tracebraid.errors import ArgumentError
from tracebraid.files import is_folder, refuse_target, write_whole
from tracebraid.model.report.parts import Report
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.renderers.as_data import report_data
from tracebraid.reports.renderers.as_text import DEFAULT_ROWS, report_parts
from tracebraid.reports.units import size

__all__ = ["ReportTarget", "report", "report_target"]

_PAGE = Path("report.html")


@dataclass(frozen=True)
class ReportTarget:
    """Where a report goes, and in which form.

    Args:
        out: the new file; None: standard output.
        json: whether it is JSON; else a page where there is a file, and text for a terminal where there is none.
        rows: of each table on the terminal.
    """

    out: Path | None
    json: bool
    rows: int = DEFAULT_ROWS

    def show(self, made: Report) -> None:
        """Write the report, whole or not at all, or print it.

        Raises:
            MissingLibraryError: a page is written, and jinja2 is not installed.
            OutputError: the file cannot be written.
        """
        if self.out is None and self.json:
            say_json(report_data(made))
        elif self.out is None:
            width = output_width()
            say(*report_parts(made, width, self.rows), width=width)
        elif self.json:
            write_whole(self.out, [json_bytes(report_data(made))], overwrite=False)
            note(f"{self.out}: {size(self.out.stat().st_size)}")
        else:
            api.write_report(made, self.out)
            what = "open it in a browser; it needs no network"
            note(f"{self.out}: {size(self.out.stat().st_size)}; {what}")


def report_target(out: Path | None, json: bool, text: bool, rows: int = DEFAULT_ROWS) -> ReportTarget:
    """Where a report goes, checked before anything is read.

    Raises:
        BadParameter: the options contradict each other, or the file's name says no form that there is.
        OutputError: the file is there, or cannot be written.
    """
    if json and text:
        raise typer.BadParameter("give one of --json and --text")
    if text and out is not None:
        raise typer.BadParameter("--text prints on the terminal: leave out -o, or --text")
    if out is not None:
        if is_folder(out):
            refuse_target(out)
        ends = out.name.lower()
        is_json, is_page = ends.endswith((".json", ".json.gz")), ends.endswith((".html", ".htm"))
        if not is_json and not is_page:
            raise typer.BadParameter(f"{out.name} is no name of a report: let it end in .html or .json")
        if json and is_page:
            raise typer.BadParameter(f"--json writes no page: let {out.name} end in .json")
        json = is_json
        refuse_target(out)
    return ReportTarget(out, json, rows)


@with_job_options
def report(
    path: TracePath,
    job_options: JobOptions,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The new file: a page (.html), or JSON (.json); report.html."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="What stands on top of the page.")] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps",
            metavar="3,5-7",
            help="The steps that the timeline shows: numbers, ranges or names; by default one of median length.",
        ),
    ] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
    critical_path: Annotated[
        bool | None,
        typer.Option(
            "--critical-path/--no-critical-path",
            help="Whether to compute the critical path and what-if answers; by default of traces that are not large.",
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the report on the terminal.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="With --text: rows of each table.")
    ] = DEFAULT_ROWS,
) -> None:
    """Write one page that a team can look at: where the time goes, why, and what would change it."""
    target = report_target(out if out or json or text else _PAGE, json, text, top)
    job = job_options.open(path)
    asked_ranks(job, rank)
    options = api.ReportOptions(title, rank, steps, annotation, critical_path)
    with progress("reading") as update:
        try:
            made, results = api.report_of(job, options, update)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error
    target.show(made)
    say_findings(results.findings)
    if any(finding.code is UNREADABLE for finding in results.findings):
        raise typer.Exit(1)
