"""All tables of a job in files: of the timelines, the Execution Traces, the links, and all answers of analyses."""

from __future__ import annotations

import shutil
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.api.exports.job_tables import FINDINGS_TABLE, JOB_TABLES, findings_frame, job_frames
from tracebraid.api.exports.options import Exported, ExportOptions, ask_each
from tracebraid.api.exports.rank_tables import RANK_TABLES, rank_frames
from tracebraid.api.exports.steps import SeenSteps, steps_of
from tracebraid.api.job.taking import gather_questions, parts_of
from tracebraid.errors import OutputError
from tracebraid.exporters.tables.column_files import ARROW, PARQUET, ColumnFiles, ColumnForm
from tracebraid.exporters.tables.exported_table import PartForm, TableSink, plain
from tracebraid.exporters.tables.sqlite_file import sqlite_tables
from tracebraid.exporters.tables.text_files import CSV, JSON, TextFiles, TextForm
from tracebraid.files import parts_folder, whole_file, whole_folder, writing
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job, Questions, answers_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.printable import encodable

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
    _refuse_other_text(path)
    with whole_file(path) as part, parts_folder(path) as parts, sqlite_tables(part, ALL_TABLES) as sink:
        rows, findings = _fill(job, options, sink, parts)
    return Exported.of(path, rows, findings)


def _write_columns(job: Job, path: Path, options: ExportOptions, form: ColumnForm) -> Exported:
    _refuse_other_text(path)
    with whole_folder(path) as part, parts_folder(path) as parts:
        rows, findings = _fill(job, options, ColumnFiles(part, ALL_TABLES, form), parts)
    return Exported.of(path, rows, findings)


def _write_text(job: Job, path: Path, options: ExportOptions, form: TextForm) -> Exported:
    _refuse_other_text(path)
    with whole_folder(path) as part, parts_folder(path) as parts:
        rows, findings = _fill(job, options, TextFiles(part, ALL_TABLES, form), parts)
    return Exported.of(path, rows, findings)


def _refuse_other_text(path: Path) -> None:
    """Refuse a path that is no UTF-8, which polars does not write to.

    Raises:
        OutputError: it is one.
    """
    whole = str(path.resolve())
    if encodable(whole) != whole:
        raise OutputError(str(path), "its path is no UTF-8, which tables need", "Name another path")


def _fill(job: Job, options: ExportOptions, sink: TableSink, parts: Path) -> tuple[int, tuple[Finding, ...]]:
    """Add the rows of all ranks, one after the other, then those over all ranks; returns how many, and findings."""
    findings: list[Finding] = []
    steps = SeenSteps(options)
    gathers = tuple(dict.fromkeys(gather for analysis in JOB_ANALYSES for gather in analysis.gathers))
    questions = gather_questions(options.annotation, gathers)
    asked = _OfRank(replace(options, progress=None), job.path, questions, sink.form, parts)
    taken, count = [], 0
    for of_rank in ask_each(job, options, asked, findings):
        steps.see(of_rank.steps)
        for table in RANK_TABLES:
            if rows := of_rank.rows.get(table.name, 0):
                sink.add_file(table, of_rank.folder / table.name, rows)
                count += rows
        shutil.rmtree(of_rank.folder)
        taken.append(parts_of(of_rank.answers, options.annotation, gathers))
    steps.check()
    for table, frame in (*job_frames(taken, options), (FINDINGS_TABLE, findings_frame(findings, job.path))):
        sink.add(table, plain(table, frame))
        count += frame.height
    sink.finish()
    return count, tuple(findings)


@dataclass(frozen=True, eq=False)
class _Written:
    """What was written of a rank, and what is kept of it.

    Args:
        folder: has a file for each table that has rows, by its name.
        rows: of these tables, by their names.
        steps: the names of its steps, where one is exported.
        answers: what the tables over all ranks take of it.
    """

    folder: Path
    rows: Mapping[str, int]
    steps: tuple[str, ...]
    answers: Mapping[Hashable, Any]


@dataclass(frozen=True, eq=False)
class _OfRank:
    """The question about a rank: writes its tables to files, wherever the work on it runs.

    Args:
        options: what is exported.
        opened: the path by which the job was opened.
        questions: what the tables over all ranks take of it.
        form: how rows are written to files.
        parts: the folder for files of all ranks.
    """

    options: ExportOptions
    opened: str
    questions: Questions
    form: PartForm
    parts: Path

    def __call__(self, linked: LinkedTrace) -> _Written:
        # What cannot be read is met before a row is written: a rank is exported whole, or left out.
        linked.compute_all()
        steps = steps_of(linked, self.options)
        folder, rows = self.parts / f"rank_{linked.rank}", {}
        with writing(folder):
            folder.mkdir(exist_ok=True)
            for table, frame in rank_frames(linked, self.opened, self.options):
                if frame.height:
                    self.form.write(table, plain(table, frame), folder / table.name)
                    rows[table.name] = frame.height
        return _Written(folder, rows, steps, answers_of(linked, self.questions))
