"""`tracebraid report`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

import tracebraid
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import end, json_bytes, note, output_width, progress, say, say_json
from tracebraid.cli.parameters import Option
from tracebraid.errors import ArgumentError
from tracebraid.files import is_folder, refuse_target, write_whole
from tracebraid.model.quantities import size
from tracebraid.model.report import Report
from tracebraid.reports.renderers import DEFAULT_ROWS, report_data, report_parts

_PAGE = Path("report.html")


class ReportTarget(Struct, frozen=True):
    """Destination and form of a report.

    Args:
        out: new file; None: standard output.
        json: whether it is JSON; else an HTML page in a file, or text on a terminal.
        rows: maximum rows of each table on the terminal.
    """

    out: Path | None
    json: bool
    rows: int = DEFAULT_ROWS

    def show(self, made: Report) -> None:
        """Write the report atomically, or print it.

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
            tracebraid.write_report(made, self.out)
            what = "open it in a browser; it needs no network"
            note(f"{self.out}: {size(self.out.stat().st_size)}; {what}")


def report_target(out: Path | None, json: bool, text: bool, rows: int = DEFAULT_ROWS) -> ReportTarget:
    """Determine the destination of a report, and check it before anything is read.

    Raises:
        ArgumentError: the options contradict each other, or the file's suffix is unknown.
        OutputError: the file exists, or cannot be written.
    """
    if json and text:
        raise ArgumentError("give one of --json and --text")
    if text and out is not None:
        raise ArgumentError("--text prints on the terminal: drop -o or --text")
    if out is not None:
        if is_folder(out):
            refuse_target(out)
        is_json = out.name.lower().endswith((".json", ".json.gz"))
        if not is_json and not is_page(out):
            raise ArgumentError(f"{out.name} is not the name of a report; it must end in .html or .json")
        if json and is_page(out):
            raise ArgumentError(f"--json needs a file that ends in .json, not {out.name}")
        json = is_json
        refuse_target(out)
    return ReportTarget(out, json, rows)


def is_page(out: Path | None) -> bool:
    """Return whether a report's file is an HTML page."""
    return out is not None and out.name.lower().endswith((".html", ".htm"))


def _needs(options: Mapping[str, Any]) -> tuple[Extra, ...]:
    prints = options["out"] is None and (options["json"] or options["text"])
    makes_page = not prints and (options["out"] is None or is_page(options["out"]))
    return (Extra.REPORT,) if makes_page else ()


@command(Group.LOOK, 6, _needs)
@with_job_options
def report(
    path: TracePath,
    job_options: JobOptions,
    out: Annotated[
        Path | None,
        Option("-o", "--output", help="New file: HTML page (.html) or JSON (.json); default: report.html."),
    ] = None,
    title: Annotated[str | None, Option("--title", help="Title of the page.")] = None,
    rank: Annotated[int | None, Option("--rank", help="Only this rank.")] = None,
    steps: Annotated[
        str | None,
        Option(
            "--steps",
            metavar="3,5-7",
            help="Steps of the timeline: numbers, ranges or names; by default one of median length.",
        ),
    ] = None,
    critical_path: Annotated[
        bool | None,
        Option(
            "--critical-path/--no-critical-path",
            help="Compute the critical path and what-if answers; by default only if the traces are not large.",
        ),
    ] = None,
    text: Annotated[bool, Option("--text", help="Print the report on the terminal.")] = False,
    json: Annotated[bool, Option("--json", help="Print the report as JSON.")] = False,
    top: Annotated[
        int, Option("--top", min=1, metavar="N", help="Rows of each table, with --text.")
    ] = DEFAULT_ROWS,
) -> None:
    """Write an HTML page to share with a team: where the time goes, why, and what to change."""
    target = report_target(out if out or json or text else _PAGE, json, text, top)
    with progress("answering") as update:
        job = job_options.open(path, update)
        made = tracebraid.report(job, title=title, rank=rank, steps=steps, with_graph=critical_path)
    target.show(made)
    end(job.findings)
