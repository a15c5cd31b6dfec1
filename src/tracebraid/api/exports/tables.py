"""Export the ledger of a rank beside its tables: files, headers, coverage and orphans."""

from __future__ import annotations

import shutil
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.analysis.catalog import job_analyses, rank_analyses
from tracebraid.api.exports.export import (
    Exported,
    ExportOptions,
    StepNames,
    events_of_step,
    in_step,
    step_bounds,
    steps_of,
)
from tracebraid.api.job_answers import gather_questions, parts_of
from tracebraid.errors import OutputError
from tracebraid.exporters.tables import (
    ARROW,
    CSV,
    JSON,
    PARQUET,
    ColumnFiles,
    ColumnForm,
    ExportedTable,
    PartForm,
    TableSink,
    TextFiles,
    TextForm,
    exported,
    plain,
    sqlite_tables,
    with_rank,
)
from tracebraid.files import parts_folder, whole_file, whole_folder, writing
from tracebraid.filesystem.paths import within as path_within
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model import schema
from tracebraid.model.analysis import Analysis
from tracebraid.model.coverage import Count
from tracebraid.model.engine import Job, Questions, answers_of
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.printable import encodable
from tracebraid.model.schema import ledger


def within(opened: str, path: str) -> str:
    """Return a file's path relative to the opened folder, with `/`; its name if it lies elsewhere."""
    return encodable(path_within(opened, path))


def files_frame(linked: LinkedTrace, opened: str) -> pl.DataFrame:
    """Build `FILES` of a rank of the job that was opened by a path."""
    timeline, et = linked.timeline, linked.et
    start_ns, end_ns = timeline.span_ns or (None, None)
    row = {
        "rank": linked.rank,
        "kineto": within(opened, timeline.path),
        "execution_trace": within(opened, et.path) if et is not None else None,
        "world_size": timeline.world_size,
        "base_time_ns": timeline.base_time_ns,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "et_schema": et.schema if et is not None else None,
    }
    return pl.DataFrame([row], schema=ledger.FILES.polars_schema())


def headers_frame(linked: LinkedTrace) -> pl.DataFrame:
    """Build `HEADERS` of a rank, sorted by key."""
    headers = {"kineto": linked.timeline.header}
    if linked.et is not None:
        headers["execution_trace"] = linked.et.header
    rows = [
        {"rank": linked.rank, "file": file, "key": key, "value": _json(value)}
        for file, header in headers.items()
        for key, value in sorted(header.items())
    ]
    return pl.DataFrame(rows, schema=ledger.HEADERS.polars_schema())


def coverage_frame(linked: LinkedTrace) -> pl.DataFrame:
    """Build `COVERAGE` of a rank."""
    coverage = linked.coverage
    total_ns, attributed_ns = coverage.gpu_time_ns
    counts = {
        "host_op": coverage.host_ops,
        "et_node": coverage.et_nodes,
        "gpu_event": coverage.gpu_events,
        "gpu_time_ns": Count(total_ns, attributed_ns, {}),
    }
    rows = [row for kind, count in counts.items() for row in _count_rows(linked.rank, kind, count)]
    return pl.DataFrame(rows, schema=ledger.COVERAGE.polars_schema())


def orphans_frame(linked: LinkedTrace) -> pl.DataFrame:
    """Build `ORPHANS` of a rank."""
    rows = [
        {
            "rank": linked.rank,
            "kind": orphans.kind.value,
            "reason": orphans.reason.value,
            "count": orphans.count,
        }
        for orphans in linked.coverage.orphans
    ]
    return pl.DataFrame(rows, schema=ledger.ORPHANS.polars_schema())


def _count_rows(rank: int, kind: str, count: Count) -> Iterator[dict[str, object]]:
    same = {"rank": rank, "kind": kind}
    yield {**same, "method": None, "total": count.total, "linked": count.linked, "share": count.share}
    for method, linked in count.by_method.items():
        share = linked / count.total if count.total else 1.0
        yield {**same, "method": method, "total": None, "linked": linked, "share": share}


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


_RANKS = {
    "ranks": exported("ranks", schema.RANKS),
    "clocks": exported("ranks", schema.CLOCKS),
    "members": exported("ranks", schema.MEMBERS),
    "collectives": exported("ranks", schema.MATCHED_COLLECTIVES),
}
"""Tables of `LinkedRanks` by attribute."""
_ANSWERS = {analysis.name: exported("answers", analysis.table) for analysis in job_analyses()}

JOB_TABLES = (*_RANKS.values(), *_ANSWERS.values())
"""Tables over all ranks, in order."""
FINDINGS_TABLE = exported("run", ledger.FINDINGS)


def job_frames(
    parts: Sequence[RankParts], options: ExportOptions
) -> Iterator[tuple[ExportedTable, pl.DataFrame]]:
    """Yield each table over all ranks with its rows."""
    linked = link_ranks(parts)
    for name, table in _RANKS.items():
        yield table, getattr(linked, name)
    for analysis in job_analyses():
        given: dict[str, object] = {}
        if options.step is not None and "per_step" in analysis.options:
            given["per_step"] = True
        frame = analysis.answer(linked, **given)
        if options.step is not None and "step" in frame.columns:
            frame = frame.filter(options.is_step(pl.col("step")))
        yield _ANSWERS[analysis.name], frame


def findings_frame(findings: Iterable[Finding], opened: str) -> pl.DataFrame:
    """Build `FINDINGS` of the job that was opened by a path."""
    rows = [
        {
            "code": finding.code.value,
            "message": encodable(finding.message),
            "file": within(opened, finding.path) if finding.path else None,
            "location": encodable(finding.where) or None,
            "count": finding.count,
            "lost_at_least": finding.loss.at_least if finding.loss else None,
            "lost_at_most": finding.loss.at_most if finding.loss else None,
        }
        for finding in findings
    ]
    return pl.DataFrame(rows, schema=ledger.FINDINGS.polars_schema())


ANALYSIS_OPTION_STEP = "per_step"
"""Option of an analysis that returns rows for each step."""

_EVENT_COLUMNS = ("event_id", "before_event", "forward_event")
"""Event columns, in order of preference: the first in a table identifies the event of a row."""
_LINKS = (
    schema.HOST_TREE,
    schema.HOST_LINKS,
    schema.NODE_LINKS,
    schema.LAUNCHES,
    schema.DEVICE_LINKS,
    schema.FORWARD_BACKWARD,
    schema.DEPENDENCIES,
)
_OF_ET = {
    "nodes": schema.ET_NODES,
    "values": schema.ET_VALUES,
    "tensors": schema.ET_TENSORS,
    "tensor_uses": schema.ET_TENSOR_USES,
    "tensor_edges": schema.ET_TENSOR_EDGES,
    "collectives": schema.ET_COLLECTIVES,
    "extra_attrs": schema.ET_EXTRA_ATTRS,
    "process_groups": schema.PROCESS_GROUPS,
}
"""Tables of an `ExecutionTrace` by attribute."""

_ranked = partial(exported, ranked=True)
_FILES = exported("run", ledger.FILES)
_HEADERS = exported("run", ledger.HEADERS)
_COVERAGE = exported("links", ledger.COVERAGE)
_ORPHANS = exported("links", ledger.ORPHANS)
_TIMELINE = {table.name: _ranked("timeline", table) for table in schema.KINETO_TABLES}
_GROUPS = _ranked("timeline", schema.PROCESS_GROUPS)
_ET = {name: _ranked("et", table) for name, table in _OF_ET.items()}
_LINKED = {table.name: _ranked("links", table) for table in _LINKS}
_RANK_TABLES_ANSWERS = {analysis.name: exported("answers", analysis.table) for analysis in rank_analyses()}

RANK_TABLES = (
    _FILES,
    _HEADERS,
    *_TIMELINE.values(),
    _GROUPS,
    *_ET.values(),
    *_LINKED.values(),
    _COVERAGE,
    _ORPHANS,
    *_RANK_TABLES_ANSWERS.values(),
)
"""Tables of a rank, in order."""


def rank_frames(
    linked: LinkedTrace, opened: str, options: ExportOptions
) -> Iterator[tuple[ExportedTable, pl.DataFrame]]:
    """Yield each table of a rank with its rows, computed in turn.

    With a step, timeline and links have its events, and answers its rows; Execution Traces, lanes, and answers that do
    not go by steps are whole.
    """
    yield _FILES, files_frame(linked, opened)
    yield _HEADERS, headers_frame(linked)
    events = None if options.step is None else events_of_step(linked, options)
    tables: Mapping[str, pl.DataFrame] = linked.timeline.tables
    for name, table in _TIMELINE.items():
        frame = _of_step(tables[name], linked, options, events)
        yield table, with_rank(frame, linked.rank)
    yield _GROUPS, with_rank(linked.timeline.process_groups, linked.rank)
    if linked.et is not None:
        yield from _et_frames(linked.et, linked.rank)
    for name, table in _LINKED.items():
        frame = _of_step(getattr(linked, name), linked, options, events)
        yield table, with_rank(frame, linked.rank)
    yield _COVERAGE, coverage_frame(linked)
    yield _ORPHANS, orphans_frame(linked)
    for analysis in rank_analyses():
        yield _RANK_TABLES_ANSWERS[analysis.name], _answer(analysis, linked, options)


def _et_frames(et: ExecutionTrace, rank: int) -> Iterator[tuple[ExportedTable, pl.DataFrame]]:
    for name, table in _ET.items():
        yield table, with_rank(getattr(et, name), rank)


def _of_step(
    frame: pl.DataFrame, linked: LinkedTrace, options: ExportOptions, events: pl.Series | None
) -> pl.DataFrame:
    """Select the rows about events of a step; all rows without a step, or if rows are not about events."""
    if events is None:
        return frame
    column = next((name for name in _EVENT_COLUMNS if name in frame.columns), None)
    if column is not None:
        return frame.filter(pl.col(column).is_in(events.implode()))
    return frame.filter(in_step(step_bounds(linked, options))) if "ts_ns" in frame.columns else frame


def _answer(analysis: Analysis, linked: LinkedTrace, options: ExportOptions) -> pl.DataFrame:
    given: dict[str, object] = {}
    if options.step is not None and ANALYSIS_OPTION_STEP in analysis.options:
        given[ANALYSIS_OPTION_STEP] = True
    frame = analysis.answer(linked, **given)
    if options.step is None or "step" not in frame.columns:
        return frame
    return frame.filter(options.is_step(pl.col("step")))


ALL_TABLES = (*RANK_TABLES, *JOB_TABLES, FINDINGS_TABLE)
"""Tables of an export, in order."""


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
        rows = _fill(job, options, sink, parts)
    return Exported.of(path, rows)


def _write_columns(job: Job, path: Path, options: ExportOptions, form: ColumnForm) -> Exported:
    _refuse_other_text(path)
    with whole_folder(path) as part, parts_folder(path) as parts:
        rows = _fill(job, options, ColumnFiles(part, ALL_TABLES, form), parts)
    return Exported.of(path, rows)


def _write_text(job: Job, path: Path, options: ExportOptions, form: TextForm) -> Exported:
    _refuse_other_text(path)
    with whole_folder(path) as part, parts_folder(path) as parts:
        rows = _fill(job, options, TextFiles(part, ALL_TABLES, form), parts)
    return Exported.of(path, rows)


def _refuse_other_text(path: Path) -> None:
    """Reject a path that is not UTF-8, which polars cannot write."""
    whole = str(path.resolve())
    if encodable(whole) != whole:
        raise OutputError(str(path), "its path is not valid UTF-8, which tables need", "Name another path")


def _fill(job: Job, options: ExportOptions, sink: TableSink, parts: Path) -> int:
    """Add the rows of each rank in turn, then those over all ranks; return their number."""
    steps = StepNames(options, job.annotation)
    gathers = tuple(dict.fromkeys(gather for analysis in job_analyses() for gather in analysis.gathers))
    questions = gather_questions(gathers)
    asked = _OfRank(options, job.path, questions, sink.form, parts)
    taken, count = [], 0
    for of_rank in job.each(asked):
        steps.see(of_rank.steps)
        for table in RANK_TABLES:
            if rows := of_rank.rows.get(table.name, 0):
                sink.add_file(table, of_rank.folder / table.name, rows)
                count += rows
        shutil.rmtree(of_rank.folder)
        taken.append(parts_of(of_rank.answers, gathers))
    steps.check()
    of_findings = FINDINGS_TABLE, findings_frame(job.findings, job.path)
    for table, frame in (*job_frames(taken, options), of_findings):
        sink.add(table, plain(table, frame))
        count += frame.height
    sink.finish()
    return count


class _Written(Struct, frozen=True, eq=False):
    """Written files of a rank, and its data for tables over all ranks.

    Args:
        folder: contains a file for each table with rows, by name.
        rows: number of rows by table.
        steps: the names of its steps, if one is exported.
        answers: its input of tables over all ranks.
    """

    folder: Path
    rows: Mapping[str, int]
    steps: tuple[str, ...]
    answers: Mapping[Hashable, Any]


class _OfRank(Struct, frozen=True, eq=False):
    """Question about a rank: write its tables to files, in any process.

    Args:
        options: what is exported.
        opened: the path of the opened job.
        questions: questions for the tables over all ranks.
        form: the file format.
        parts: the folder for the files of all ranks.
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
