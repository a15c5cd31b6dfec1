"""A server for the report of a job, which only this machine's browser can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracebraid.api.exports.export import ExportOptions, export
from tracebraid.files import temporary_folder
from tracebraid.model.engine import Job
from tracebraid.model.export_format import ExportFormat
from tracebraid.model.report import Report
from tracebraid.reports.page.modules import content_policy
from tracebraid.reports.page.page import page
from tracebraid.viewer import TIMELINE, ReportServer, Served


@contextmanager
def report_server(job: Job, report: Report, *, port: int = 0) -> Iterator[ReportServer]:
    """Serve the report's page and, on request, the job's timeline; the port is released at the end."""
    text = page(report, TIMELINE)

    def write_timeline(path: Path) -> None:
        export(job, path, ExportFormat.PERFETTO, ExportOptions())

    with temporary_folder("tracebraid-") as folder:
        served = Served(text.encode("utf-8"), content_policy(served=True), write_timeline, folder)
        with ReportServer(served, port) as server:
            yield server
