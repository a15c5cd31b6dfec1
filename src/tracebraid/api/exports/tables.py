"""All tables of a job in files: of the timelines, the Execution Traces, the links, and all answers of analyses."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.api.exports.job_tables import FINDINGS_TABLE, JOB_TABLES, findings_frame, job_frames
from tracebraid.api.exports.options import Exported, ExportOptions, ask_each
from tracebraid.api.exports.rank_tables import RANK_TABLES, rank_frames
from tracebraid.api.exports.steps import SeenSteps
from tracebraid.api.job.taking import gather_questions, parts_of
from tracebraid.exporters.tables.column_files import ARROW, PARQUET, ColumnFiles, ColumnForm
from tracebraid.exporters.tables.exported_table import ExportedTable, TableSink, plain
from tracebraid.exporters.tables.sqlite_file import sqlite_tables
from tracebraid.exporters.tables.text_files import CSV, JSON, TextFiles, TextForm
from tracebraid.files import whole_file, whole_folder
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job, answers_of
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["ALL_TABLES", "write_arrow", "write_csv", "write_json", "write_parquet", "write_sqlite"]

ALL_TABLES = (*RANK_TABLES, *JOB_TABLES, FINDINGS_TABLE)
"""Every table of an export, in order."""


def write_parquet(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write all tables as Parquet into a new folder."""
    return _write_columns(job, path, options, PARQUET)


def write_arrow(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write all tables as Arrow IPC into a new folder."""
    return _write_columns(job, path, options, ARROW)


def write_csv(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write all tables as CSV into a new folder."""
    return _write_text(job, path, options, CSV)


def write_json(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write all tables as JSON into a new folder."""
    return _write_text(job, path, options, JSON)


def write_sqlite(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write all tables into a new SQLite database."""
    with whole_file(path) as part, sqlite_tables(part, ALL_TABLES) as sink:
        rows, findings = _fill(job, options, sink)
    return Exported.of(path, rows, findings)


def _write_columns(job: Job, path: Path, options: ExportOptions, form: ColumnForm) -> Exported:
    with whole_folder(path) as part:
        rows, findings = _fill(job, options, ColumnFiles(part, ALL_TABLES, form))
    return Exported.of(path, rows, findings)


def _write_text(job: Job, path: Path, options: ExportOptions, form: TextForm) -> Exported:
    with whole_folder(path) as part:
        rows, findings = _fill(job, options, TextFiles(part, ALL_TABLES, form))
    return Exported.of(path, rows, findings)


def _fill(job: Job, options: ExportOptions, sink: TableSink) -> tuple[int, tuple[Finding, ...]]:
    """Add the rows of all ranks, one after the other, then those over all ranks; returns how many, and findings."""
    counted = _Counted(sink)
    findings: list[Finding] = []
    steps = SeenSteps(options)
    gathers = tuple(dict.fromkeys(gather for analysis in JOB_ANALYSES for gather in analysis.gathers))
    questions = gather_questions(options.annotation, gathers)

    def write_rank(linked: LinkedTrace) -> dict[Hashable, Any]:
        # What cannot be read is met before a row is written: a rank is exported whole, or left out.
        linked.compute_all()
        steps.see(linked)
        for table, frame in rank_frames(linked, job, options):
            counted.add(table, frame)
        return answers_of(linked, questions)

    taken = list(ask_each(job, options, write_rank, findings))
    steps.check()
    parts = [parts_of(of_rank, options.annotation, gathers) for of_rank in taken]
    for table, frame in job_frames(parts, options):
        counted.add(table, frame)
    counted.add(FINDINGS_TABLE, findings_frame(findings, job))
    sink.finish()
    return counted.rows, tuple(findings)


class _Counted:
    """Converts rows to the types of files, and counts them."""

    def __init__(self, sink: TableSink) -> None:
        self._sink, self.rows = sink, 0

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Add rows to a table."""
        self._sink.add(table, plain(table, frame))
        self.rows += frame.height
