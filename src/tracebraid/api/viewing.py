"""A server for the report of a job, which only this machine's browser can read."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracebraid.api.exports.export import export
from tracebraid.api.exports.options import ExportOptions
from tracebraid.files import temporary_folder
from tracebraid.model.export_format import ExportFormat
from tracebraid.model.job import Job
from tracebraid.model.report.parts import Report
from tracebraid.reports.page.page import ServedPage, page
from tracebraid.viewer.served import TIMELINE, Served
from tracebraid.viewer.server import ReportServer

__all__ = ["report_server"]

_NONCE_BYTES = 16


@contextmanager
def report_server(job: Job, report: Report, *, annotation: str, port: int = 0) -> Iterator[ReportServer]:
    """A server that hands out the report's page and, when asked, the job's timeline; in the end its port is free.

    Args:
        job: the ranks.
        report: of `report`.
        annotation: what marks a step, see `steps`.
        port: of 127.0.0.1; 0: any that is free.

    Raises:
        MissingLibraryError: jinja2 is not installed.
        ArgumentError: the port cannot be had.
    """
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    text = page(report, ServedPage(nonce, TIMELINE))

    def write_timeline(path: Path) -> None:
        export(job, path, ExportFormat.PERFETTO, ExportOptions(annotation=annotation))

    with temporary_folder("tracebraid-") as folder:
        served = Served(text.encode("utf-8"), nonce, write_timeline, folder)
        with ReportServer(served, port) as server:
            yield server
