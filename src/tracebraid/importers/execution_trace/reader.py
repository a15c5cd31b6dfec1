"""An Execution Trace file, read into an `ExecutionTrace`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.importers.execution_trace.arrow import is_et_arrow, read_et_arrow
from tracebraid.importers.execution_trace.decode import NodeColumns, decode_nodes
from tracebraid.importers.execution_trace.tables import Recorded, assemble
from tracebraid.importers.findings import findings_of
from tracebraid.importers.frames import frame_of
from tracebraid.importers.json_stream.chunks import ArrayFile, open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.model.column import Table
from tracebraid.model.et_arrow import RECORDED_TENSOR_USES
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.schema import ET_COLLECTIVES, ET_EXTRA_ATTRS, ET_NODES, ET_VALUES

__all__ = ["execution_trace_of", "read_execution_trace"]

_PIECE_BYTES = 4 << 20


def read_execution_trace(path: str | Path) -> ExecutionTrace:
    """Read an Execution Trace of any schema: `.json` or `.json.gz`, or `-` for standard input; or `.arrow.zip`.

    Raises:
        InputError: the file cannot be read, is no trace, or is a Kineto trace.
    """
    return read_et_arrow(path) if is_et_arrow(path) else execution_trace_of(open_array(open_source(path)))


def execution_trace_of(file: ArrayFile) -> ExecutionTrace:
    """Read an opened file, see `read_execution_trace`."""
    if file.array != "nodes":
        raise WrongTraceError(
            file.source.path,
            "this is a Kineto trace, and an Execution Trace was expected here",
            "Give the file with `nodes` (usually torch_et_<rank>.json); did the two change places?",
        )
    seen: set[int] = set()
    pieces = [
        decode_nodes(file.view(piece), piece.start, file.first_key, seen)
        for piece in file.pieces(_PIECE_BYTES)
    ]
    if not any(piece.tables["nodes"].rows for piece in pieces):
        raise NotATraceError(
            file.source.path, "it holds no node that can be read", "Was the trace finalised?"
        )
    return _assembled(file, pieces)


def _assembled(file: ArrayFile, pieces: list[NodeColumns]) -> ExecutionTrace:
    return assemble(
        Recorded(
            path=file.source.path,
            header=file.header,
            nodes=_of(ET_NODES, pieces),
            values=_of(ET_VALUES, pieces),
            uses=_of(RECORDED_TENSOR_USES, pieces),
            collectives=_of(ET_COLLECTIVES, pieces),
            extra_attrs=_of(ET_EXTRA_ATTRS, pieces),
            repeated=tuple(node for piece in pieces for node in piece.repeated),
            findings=tuple(findings_of(file, [issue for piece in pieces for issue in piece.issues])),
        )
    )


def _of(table: Table, pieces: list[NodeColumns]) -> pl.DataFrame:
    return frame_of(table, [piece.tables[table.name] for piece in pieces])
