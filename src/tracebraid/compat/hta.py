"""HTA's calls on Execution Traces: in a script that uses `hta.common.execution_trace`, only the import changes.

    from tracebraid.compat import hta as execution_trace

They take HTA's own `Trace` and DataFrame, and Tracebraid's `Job`, `LinkedTrace`, `Timeline` and Polars frames. What
HTA logs as an error, to go on without a column, is raised here. HTA itself is never imported.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
import polars as pl

from tracebraid import link, read_execution_trace
from tracebraid.compat.et_fields import HTA_COLUMNS, IN_KINETO_TOO, field_of, fields
from tracebraid.compat.hta_trace import Trace, TraceAnalysis
from tracebraid.compat.rows import host_rows, nodes_of_rows, timeline_of_rows
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.coverage import OrphanKind
from tracebraid.model.engine import Job
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import reason_sentence
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.timeline import Timeline

__all__ = [
    "HTA_COLUMNS",
    "HtaTrace",
    "Trace",
    "TraceAnalysis",
    "add_et_column",
    "correlate_execution_trace",
    "load_execution_trace",
]


class HtaTrace(Protocol):
    """Used part of HTA's `Trace`: the DataFrames, the files, and the symbol table of both text columns."""

    trace_files: dict[int, str]
    symbol_table: Any

    def get_all_traces(self) -> dict[int, Any]:
        """The pandas DataFrame of each rank."""


def load_execution_trace(et_file: str | Path) -> ExecutionTrace:
    """Read an Execution Trace, `.json` or `.json.gz`; a leading `~` is the home folder.

    Raises:
        ArgumentError: `et_file` is no path.
        InputError: the file cannot be read, or is no Execution Trace.

    Examples:
        >>> import tracebraid
        >>> from tracebraid.compat import hta as execution_trace
        >>> et = execution_trace.load_execution_trace(tracebraid.demo_path() / "torch_et_0.json.gz")
        >>> et.schema
        '1.1.1-chakra.0.0.4'
    """
    if not isinstance(et_file, str | os.PathLike):
        raise ArgumentError(f"et_file is a {type(et_file).__name__}; give the path of an Execution Trace")
    return read_execution_trace(Path(et_file).expanduser())


@overload
def correlate_execution_trace(
    trace: Job | LinkedTrace | Timeline, rank: int, et: ExecutionTrace
) -> pl.DataFrame: ...
@overload
def correlate_execution_trace(trace: HtaTrace, rank: int, et: ExecutionTrace) -> None: ...
def correlate_execution_trace(
    trace: Job | LinkedTrace | Timeline | HtaTrace, rank: int, et: ExecutionTrace
) -> pl.DataFrame | None:
    """Find the Execution Trace node of each host op of a rank: the column `et_node`, empty if none was proven.

    HTA's `Trace` gets the column in its DataFrame of that rank, as float64 with NaN. Its ops are linked in the file
    that it was read from; where that is gone, by the ids and times in the DataFrame, which prove less.

    Args:
        trace: HTA's `Trace` (`analyzer.t`), or Tracebraid's own.
        rank: the rank.
        et: its Execution Trace, of the same run.

    Returns:
        None for HTA's `Trace`. For Tracebraid's own, whose tables do not change, a row for each event: `event_id`,
        `name`, `category`, `pid`, `tid`, `ts_ns`, `dur_ns`, `et_node`; `.to_pandas()` makes it one for pandas.

    Raises:
        ArgumentError: there is no such rank, or an argument is of another kind.
        InputError: no op is one of the trace's nodes, or the Kineto file cannot be read.

    Warns:
        UserWarning: the Execution Trace's name says another rank, or what it says of its process is of another one.

    Examples:
        >>> import tracebraid
        >>> from tracebraid.compat import hta as execution_trace
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> df = execution_trace.correlate_execution_trace(job, 0, job[0].et)
        >>> execution_trace.add_et_column(df, job[0].et, "op_schema")
        >>> df.columns[-2:]
        ['et_node', 'op_schema']
    """
    _check_et(et)
    if isinstance(trace, Job | LinkedTrace | Timeline):
        linked = _linked(trace, rank, et)
        _check_links(linked, et)
        return _events_with_nodes(linked)
    frame = _frame(trace, rank)
    rows = host_rows(frame, trace.symbol_table.get_sym_table())
    file = getattr(trace, "trace_files", {}).get(rank)
    linked = link(et, file if file and Path(file).is_file() else timeline_of_rows(frame, rows, rank))
    _check_links(linked, et)
    pairs = nodes_of_rows(rows, linked)
    nodes = np.full(len(frame), np.nan)
    nodes[pairs.get_column("row").to_numpy()] = pairs.get_column("node_id").to_numpy()
    frame["et_node"] = nodes
    return None


def add_et_column(trace_df: Any, et: ExecutionTrace, column: str) -> None:
    """Add a field of the Execution Trace's nodes to a DataFrame with `et_node`, in place.

    Known are HTA's `et_node_name`, `op_schema`, `input_shapes`, `input_types`, `output_shapes`, `output_types`, and
    all other fields: `rf_id`, `seq_id`, `inputs`, `output_strides`, `pg_name`, ... Where the DataFrame has a column
    of Kineto's by the same name (`tid`), it is kept; ask for `et_tid`. Rows without a node, or whose node has no
    such field, are NaN (null).

    Args:
        trace_df: a pandas DataFrame, in which shapes, strides and values are lists; or a Polars one, in which they
            are JSON text.
        et: the Execution Trace that it was correlated with.
        column: the field.

    Raises:
        ArgumentError: there is no such field, the DataFrame was not correlated, or not with this trace.
    """
    _check_et(et)
    if "et_node" not in trace_df.columns:
        raise ArgumentError("the DataFrame has no column et_node; run correlate_execution_trace first")
    known = fields(et)
    if column not in known:
        raise ArgumentError(f"no column {column!r} in an Execution Trace; known are {_listed(known)}")
    if column in IN_KINETO_TOO and column in trace_df.columns:
        raise ArgumentError(
            f"the DataFrame has a column {column!r} of Kineto's; ask for {_prefixed(column)!r}"
        )
    field = field_of(et, column)
    if isinstance(trace_df, pl.DataFrame):
        nodes = trace_df.select(pl.col("et_node").cast(pl.Float64).fill_nan(None).cast(pl.Int64))
        _check_nodes(nodes.get_column("et_node"), et)
        values = field.values.rename({"node_id": "et_node", "value": column})
        added = nodes.join(values, on="et_node", how="left", maintain_order="left").get_column(column)
        position = trace_df.get_column_index(column) if column in trace_df.columns else trace_df.width
        if position < trace_df.width:
            trace_df.drop_in_place(column)
        trace_df.insert_column(position, added)
        return
    _check_nodes(pl.Series(trace_df["et_node"].dropna().unique().tolist()), et)
    trace_df[column] = trace_df["et_node"].map(field.by_node())


def _frame(trace: HtaTrace, rank: int) -> Any:
    if not (hasattr(trace, "get_all_traces") and hasattr(trace, "symbol_table")):
        advice = (
            "give its `.t`" if hasattr(trace, "t") else "give HTA's Trace, a Job, a LinkedTrace or a Timeline"
        )
        raise ArgumentError(f"trace is a {type(trace).__name__}; {advice}")
    frames = trace.get_all_traces()
    if rank not in frames:
        raise ArgumentError(f"there is no trace of rank {rank}; there are ranks {_listed(sorted(frames))}")
    return frames[rank]


def _linked(trace: Job | LinkedTrace | Timeline, rank: int, et: ExecutionTrace) -> LinkedTrace:
    opened = trace[rank] if isinstance(trace, Job) else trace
    if opened.rank != rank:
        raise ArgumentError(f"the trace is of rank {opened.rank}, and rank {rank} was asked for")
    if isinstance(opened, Timeline):
        return link(et, opened)
    return opened if opened.is_linked_with(et) else link(et, opened.timeline)


def _events_with_nodes(linked: LinkedTrace) -> pl.DataFrame:
    nodes = linked.host_links.select("event_id", et_node="node_id")
    lanes = linked.timeline.lanes.select("lane", "pid", "tid")
    return (
        linked.timeline.events.join(lanes, on="lane", how="left", maintain_order="left")
        .join(nodes, on="event_id", how="left", maintain_order="left")
        .select("event_id", "name", "category", "pid", "tid", "ts_ns", "dur_ns", "et_node")
    )


def _check_et(et: object) -> None:
    if not isinstance(et, ExecutionTrace):
        raise ArgumentError(
            f"et is a {type(et).__name__}; give what tracebraid.compat.hta.load_execution_trace returns"
        )


_WARNED_OF = (FindingCode.RANKS_DIFFER, FindingCode.ANOTHER_RANK, FindingCode.ANOTHER_RUN)
"""Findings that make links doubtful, in order; a warning names the first."""


def _check_links(linked: LinkedTrace, et: ExecutionTrace) -> None:
    if linked.host_links.get_column("node_id").null_count() < linked.host_links.height:
        by_code = {finding.code: finding for finding in reversed(linked.known_findings)}
        warned = [by_code[code] for code in _WARNED_OF if code in by_code]
        if warned:
            warnings.warn(warned[0].message, stacklevel=3)
        return
    reasons = [orphan.reason for orphan in linked.coverage.orphans if orphan.kind is OrphanKind.HOST_OP]
    why = f": {reason_sentence(reasons[0])}" if reasons else ""
    raise InputError(
        et.path,
        f"no op of rank {linked.rank} in {linked.timeline.path} is one of its nodes{why}",
        "Give the Execution Trace that was recorded together with this Kineto trace",
    )


def _check_nodes(nodes: pl.Series, et: ExecutionTrace) -> None:
    known = et.nodes.get_column("node_id")
    wanted = nodes.drop_nulls().cast(pl.Int64).unique().sort()
    unknown = wanted.filter(~wanted.is_in(known.implode()))
    if not unknown.is_empty():
        text = f"{et.path} has no node {unknown[0]}, which et_node names"
        raise ArgumentError(f"{text}; give the Execution Trace that the DataFrame was correlated with")


def _prefixed(column: str) -> str:
    return "et_node_name" if column == "name" else f"et_{column}"


def _listed(values: list[Any]) -> str:
    return ", ".join(str(value) for value in values) or "none"
