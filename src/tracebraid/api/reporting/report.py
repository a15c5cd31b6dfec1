"""Reports of a run: sections for any renderer, and one HTML page."""

from __future__ import annotations

import os
from pathlib import Path

from tracebraid.api.reporting.options import ReportOptions
from tracebraid.api.reporting.run_results import run_results
from tracebraid.files import write_whole
from tracebraid.filesystem.paths import resolved_name
from tracebraid.model.job import Job
from tracebraid.model.rank_files import Progress
from tracebraid.model.report.parts import Report
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.page.page import page
from tracebraid.reports.sections.comparison import comparison_report
from tracebraid.reports.sections.run_report import run_report

__all__ = ["comparison_report", "report", "report_of", "write_report"]


def report(
    job: Job,
    *,
    title: str | None = None,
    rank: int | None = None,
    steps: str | None = None,
    annotation: str = PROFILER_STEP,
) -> Report:
    """A report of a run: where its time goes, why, and what would change it.

    Args:
        job: the ranks.
        title: what stands on top; by default the name of the opened folder or file.
        rank: only this rank; None: all.
        steps: the steps that the timeline shows: numbers, ranges or names, such as `3,5-7`; None: one of median
            length.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: no rank can be read.
        ArgumentError: there is no such rank or step.

    Example::

        report = tracebraid.report(tracebraid.open("traces/"))
        tracebraid.write_report(report, "report.html")
    """
    return report_of(job, ReportOptions(title, rank, steps, annotation))[0]


def report_of(
    job: Job, options: ReportOptions, progress: Progress | None = None
) -> tuple[Report, RunResults]:
    """A report of a run, and the results that it is made from.

    Args:
        job: the ranks.
        options: what is asked.
        progress: is called with the share of the traces that is read, 0 to 1.

    Raises:
        InputError: no rank can be read.
        ArgumentError: there is no such rank or step.
        MissingLibraryError: the graph is asked for, and numba is not installed.
    """
    results = run_results(job, options, progress)
    name = resolved_name(job.path)
    return run_report(results, options.title or f"Tracebraid: {name}"), results


def write_report(report: Report, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a report as one HTML page that needs no network; the same report gives the same bytes.

    Args:
        report: of `report`, or of `comparison_report`.
        path: the new file.
        overwrite: whether a file that is there may be replaced.

    Raises:
        MissingLibraryError: jinja2 is not installed.
        OutputError: the file is there, or cannot be written.
    """
    write_whole(Path(path), [page(report).encode("utf-8")], overwrite)
