"""The tables of one rank, as they are exported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import polars as pl

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.api.exports.ledger import coverage_frame, files_frame, headers_frame, orphans_frame
from tracebraid.api.exports.options import ExportOptions
from tracebraid.api.exports.steps import events_of_step, in_step, step_bounds
from tracebraid.exporters.tables.exported_table import ExportedTable, exported, with_rank
from tracebraid.model import schema
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Analysis
from tracebraid.model.schema import ledger

__all__ = ["ANALYSIS_OPTION_STEP", "RANK_TABLES", "rank_frames"]

ANALYSIS_OPTION_STEP = "per_step"
"""The option of an analysis that gives rows for each step."""

_EVENT_COLUMNS = ("event_id", "before_event", "forward_event")
"""The first of them that a table has says which event a row is about."""
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
"""The tables of an `ExecutionTrace`, by the attributes that they are."""

_ranked = partial(exported, ranked=True)
_FILES, _HEADERS = exported("run", ledger.FILES), exported("run", ledger.HEADERS)
_COVERAGE, _ORPHANS = exported("links", ledger.COVERAGE), exported("links", ledger.ORPHANS)
_TIMELINE = {table.name: _ranked("timeline", table) for table in schema.KINETO_TABLES}
_GROUPS = _ranked("timeline", schema.PROCESS_GROUPS)
_ET = {name: _ranked("et", table) for name, table in _OF_ET.items()}
_LINKED = {table.name: _ranked("links", table) for table in _LINKS}
_ANSWERS = {analysis.name: exported("answers", analysis.table) for analysis in ANALYSES}

RANK_TABLES = (
    _FILES,
    _HEADERS,
    *_TIMELINE.values(),
    _GROUPS,
    *_ET.values(),
    *_LINKED.values(),
    _COVERAGE,
    _ORPHANS,
    *_ANSWERS.values(),
)
"""All tables of a rank, in order."""


def rank_frames(
    linked: LinkedTrace, opened: str, options: ExportOptions
) -> Iterator[tuple[ExportedTable, pl.DataFrame]]:
    """Each table of a rank with its rows, computed one after the other.

    Of a step: timeline and links have its events, and answers its rows; Execution Traces, lanes, and answers that do
    not go by steps are whole.

    Args:
        linked: the rank.
        opened: the path by which its job was opened.
        options: what is exported.
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
    for analysis in ANALYSES:
        yield _ANSWERS[analysis.name], _answer(analysis, linked, options)


def _et_frames(et: ExecutionTrace, rank: int) -> Iterator[tuple[ExportedTable, pl.DataFrame]]:
    for name, table in _ET.items():
        yield table, with_rank(getattr(et, name), rank)


def _of_step(
    frame: pl.DataFrame, linked: LinkedTrace, options: ExportOptions, events: pl.Series | None
) -> pl.DataFrame:
    """The rows about the events of a step; all rows, where all steps are exported, or rows are not about events."""
    if events is None:
        return frame
    column = next((name for name in _EVENT_COLUMNS if name in frame.columns), None)
    if column is not None:
        return frame.filter(pl.col(column).is_in(events.implode()))
    return frame.filter(in_step(step_bounds(linked, options))) if "ts_ns" in frame.columns else frame


def _answer(analysis: Analysis, linked: LinkedTrace, options: ExportOptions) -> pl.DataFrame:
    given: dict[str, object] = {}
    if "annotation" in analysis.options:
        given["annotation"] = options.annotation
    if options.step is not None and ANALYSIS_OPTION_STEP in analysis.options:
        given[ANALYSIS_OPTION_STEP] = True
    frame = analysis.answer(linked, **given)
    if options.step is None or "step" not in frame.columns:
        return frame
    return frame.filter(pl.col("step").is_in(options.step_names))
