"""An Execution Trace file, read into an `ExecutionTrace`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.filesystem.paths import name_of
from tracebraid.importers.chunk_decoding import ChunkKind, decode_file
from tracebraid.importers.columns import taken
from tracebraid.importers.execution_trace.decode import NodeColumns
from tracebraid.importers.execution_trace.tables import Recorded, assemble
from tracebraid.importers.frames import findings_of, frame_of
from tracebraid.importers.json_stream.chunks import ArrayFile, open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.model.column import Table
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.op_schema import is_arrow
from tracebraid.model.rank_files import Progress
from tracebraid.model.schema import ET_COLLECTIVES, ET_EXTRA_ATTRS, ET_NODES, ET_VALUES

_CHUNK_BYTES = 4 << 20
"""Nodes repeat more than events: larger chunks decode each distinct text less often."""


def read_execution_trace(path: str | Path, progress: Progress | None = None) -> ExecutionTrace:
    """Read an Execution Trace of any schema: `.json`, also `.gz` or `.zst`, or `-` for standard input; or `.arrow.zip`.

    Args:
        path: the file.
        progress: is called with how far the file is read, 0 to 1, now and then.

    Raises:
        InputError: the file cannot be read, is no trace, or is a Kineto trace.
    """
    if is_arrow(name_of(str(path))):
        from tracebraid.importers.execution_trace.arrow import read_et_arrow

        return read_et_arrow(path)
    return execution_trace_of(open_array(open_source(path)), progress)


def execution_trace_of(file: ArrayFile, progress: Progress | None = None) -> ExecutionTrace:
    """Read an opened file, see `read_execution_trace`."""
    if file.array != "nodes":
        raise WrongTraceError(
            file.source.path,
            "this is a Kineto trace, but an Execution Trace was expected",
            "Give the file with `nodes` (usually torch_et_<rank>.json); are the two swapped?",
        )
    chunks: list[NodeColumns] = decode_file(file, progress, ChunkKind.NODES, _CHUNK_BYTES)
    if not any(chunk.tables["nodes"].rows for chunk in chunks):
        raise NotATraceError(file.source.path, "it contains no readable node", "Was the trace finalised?")
    return _assembled(file, chunks)


def _assembled(file: ArrayFile, chunks: list[NodeColumns]) -> ExecutionTrace:
    repeated = _leave_out_repeated(chunks)
    et = assemble(
        Recorded(
            path=file.source.path,
            header=file.header,
            nodes=_of(ET_NODES, chunks),
            values=_of(ET_VALUES, chunks),
            collectives=_of(ET_COLLECTIVES, chunks),
            extra_attrs=_of(ET_EXTRA_ATTRS, chunks),
            repeated=tuple(repeated),
            findings=tuple(findings_of(file, [issue for chunk in chunks for issue in chunk.issues])),
        )
    )
    return replace(et, size_bytes=file.source.size_bytes)


def _leave_out_repeated(chunks: list[NodeColumns]) -> list[int]:
    """Drop nodes with the id of an earlier node, with their rows in all tables; return their ids."""
    ids = np.concatenate([chunk.tables["nodes"].ints("node_id") for chunk in chunks])
    _, first = np.unique(ids, return_index=True)
    if len(first) == len(ids):
        return []
    is_kept = np.zeros(len(ids), dtype=np.bool_)
    is_kept[first] = True
    begin = 0
    for chunk in chunks:
        here = is_kept[begin : begin + chunk.tables["nodes"].rows]
        begin += len(here)
        chunk.tables["nodes"] = taken(chunk.tables["nodes"], np.flatnonzero(here))
        for name, owner in chunk.owners.items():
            chunk.tables[name] = taken(chunk.tables[name], np.flatnonzero(here[owner]))
    return [int(node) for node in ids[~is_kept].tolist()]


def _of(table: Table, chunks: list[NodeColumns]) -> pl.DataFrame:
    return frame_of(table, [chunk.tables.pop(table.name) for chunk in chunks])
