"""An Execution Trace file, read into an `ExecutionTrace`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.model.column import Table
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.schema import (
    ET_COLLECTIVES,
    ET_EXTRA_ATTRS,
    ET_NODES,
    ET_TENSOR_USES,
    ET_TENSORS,
    ET_VALUES,
    PROCESS_GROUPS,
)
from tracebraid.read.et_decode import NodeColumns, decode_nodes
from tracebraid.read.findings import findings_of
from tracebraid.read.frames import frame_of
from tracebraid.read.node_tree import last_inside, tidy_nodes
from tracebraid.read.pieces import ArrayFile, open_array
from tracebraid.read.process_groups import groups_of_text
from tracebraid.read.rank import rank_from_name
from tracebraid.read.source import open_source
from tracebraid.read.tensor_graph import tensor_graph

__all__ = ["KNOWN_SCHEMAS", "execution_trace_of", "read_execution_trace"]

KNOWN_SCHEMAS = (
    "1.0.1",
    "1.0.2-chakra.0.0.4",
    "1.0.3-chakra.0.0.4",
    "1.0.4-chakra.0.0.4",
    "1.1.0-chakra.0.0.4",
    "1.1.1-chakra.0.0.4",
)
_PIECE_BYTES = 4 << 20
_PROCESS_GROUP_INIT = "## process_group:init ##"
_RAW_USES = Table(
    "tensor_uses",
    "Uses as the file has them, with the members of the tensor's tuple.",
    (*ET_TENSOR_USES.columns[:-1], *ET_TENSORS.columns[1:-1]),
)


def read_execution_trace(path: str | Path) -> ExecutionTrace:
    """Read an Execution Trace of any schema: `.json` or `.json.gz`, or `-` for standard input.

    Raises:
        InputError: the file cannot be read, is no trace, or is a Kineto trace.
    """
    return execution_trace_of(open_array(open_source(path)))


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
    return _execution_trace(file, pieces)


def _execution_trace(file: ArrayFile, pieces: list[NodeColumns]) -> ExecutionTrace:
    path = file.source.path
    schema = str(file.header.get("schema", ""))
    findings = findings_of(file, [issue for piece in pieces for issue in piece.issues])
    if schema not in KNOWN_SCHEMAS:
        text = f"schema {schema!r} is not known; its nodes parse like those of a known one and were read so"
        findings.append(Finding("schema-unknown", text, path))
    repeated = [node for piece in pieces for node in piece.repeated]
    nodes, tree_findings = tidy_nodes(_of(ET_NODES, pieces), repeated, path)
    values, uses = _of(ET_VALUES, pieces), _of(_RAW_USES, pieces)
    graph = tensor_graph(nodes, uses, last_inside(nodes))
    return ExecutionTrace(
        path=path,
        schema=schema,
        rank=rank_from_name(path),
        header=file.header,
        nodes=nodes,
        values=values,
        tensors=graph.tensors,
        tensor_uses=graph.uses,
        tensor_edges=graph.edges,
        collectives=_of(ET_COLLECTIVES, pieces),
        extra_attrs=_of(ET_EXTRA_ATTRS, pieces),
        process_groups=_process_groups(nodes, values),
        findings=(*findings, *tree_findings),
    )


def _of(table: Table, pieces: list[NodeColumns]) -> pl.DataFrame:
    return frame_of(table, [piece.tables[table.name] for piece in pieces])


def _process_groups(nodes: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """The groups of the last `process_group:init` node: its list holds all groups so far."""
    inits = nodes.filter(pl.col("name").cast(pl.String) == _PROCESS_GROUP_INIT).get_column("node_id")
    texts = values.filter(pl.col("node_id").is_in(inits.implode()) & ~pl.col("is_output")).get_column("value")
    if texts.is_empty():
        return PROCESS_GROUPS.empty()
    return groups_of_text(str(texts.cast(pl.String).to_list()[-1]))
