"""Reports of a run: sections for any renderer, and one HTML page."""

from __future__ import annotations

import os
from pathlib import Path

from tracebraid.api.reporting.run_results import run_results
from tracebraid.files import write_whole
from tracebraid.model.job import Job
from tracebraid.model.report.parts import Report
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.page.page import page
from tracebraid.reports.sections.run_report import run_report

__all__ = ["report", "write_report"]


def report(job: Job, *, title: str | None = None, annotation: str = PROFILER_STEP) -> Report:
    """A report of a run: where its time goes, why, and what would change it.

    Args:
        job: the ranks.
        title: what stands on top; by default the name of the opened folder or file.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: a file cannot be read.

    Example::

        report = tracebraid.report(tracebraid.open("traces/"))
        tracebraid.write_report(report, "report.html")
    """
    name = Path(job.path).resolve().name
    return run_report(run_results(job, annotation), title or f"Tracebraid: {name}")


def write_report(report: Report, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a report as one HTML page that needs no network; the same report gives the same bytes.

    Args:
        report: of `report`.
        path: the new file.
        overwrite: whether a file that is there may be replaced.

    Raises:
        MissingLibraryError: jinja2 is not installed.
        OutputError: the file is there, or cannot be written.
    """
    write_whole(Path(path), [page(report).encode("utf-8")], overwrite)
