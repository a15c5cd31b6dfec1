"""An ET+ file, read into an `EtPlus`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.importers.et_plus.node import EtPlusNode, row_of, waits_of
from tracebraid.importers.findings import findings_of
from tracebraid.importers.json_stream.chunks import NODE_MEMBER, ArrayFile, open_array, shape_of
from tracebraid.importers.json_stream.recover import recover
from tracebraid.importers.json_stream.source import open_source
from tracebraid.importers.process_groups import groups_of_text
from tracebraid.model.chakra.et_plus import ET_PLUS_NODES, EtPlus
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.issue import Issue

__all__ = ["read_et_plus"]

_CHUNK_BYTES = 4 << 20
_GROUPS_NODE = "process_group:init"
_NODES = msgspec.json.Decoder(list[EtPlusNode])


def read_et_plus(path: str | Path) -> EtPlus:
    """Read an ET+ file of Tracebraid, Chakra or trace_link: `.json`, also `.gz` or `.zst`.

    Args:
        path: the file.

    Raises:
        InputError: the file cannot be read, is no trace, or is a Kineto trace.
        NotATraceError: it has no node that can be read, or none with a time: it is an Execution Trace alone.
    """
    file = open_array(open_source(path))
    if file.array != "nodes":
        advice = "Give the linked file (ET+) that `tracebraid link` or chakra_trace_link wrote"
        raise WrongTraceError(file.source.path, "this is a Kineto trace, and ET+ was expected here", advice)
    rows: list[tuple[Any, ...]] = []
    waits: list[tuple[int, int]] = []
    groups: dict[str, tuple[int, ...]] = {}
    issues: list[Issue] = []
    for chunk in file.chunks(_CHUNK_BYTES):
        for node in _decoded(file, file.view(chunk), chunk.start, issues):
            rows.append(row_of(node))
            waits += waits_of(node)
            if _GROUPS_NODE in node.name:
                groups |= _groups(node)
    if not rows:
        raise NotATraceError(
            file.source.path, "it holds no node that can be read", "Was the file written to its end?"
        )
    nodes = pl.DataFrame(rows, schema=ET_PLUS_NODES.polars_schema(), orient="row")
    # Of nodes that share an id the first counts, as everywhere.
    if not nodes.unique("node_id", keep="first").get_column("ts_ns").is_not_null().any():
        advice = "Link it with its Kineto trace first: `tracebraid link`"
        raise NotATraceError(file.source.path, "no node has a time, so it is no linked trace", advice)
    schema = str(file.header.get("schema", ""))
    found = findings_of(file, issues)
    return EtPlus(file.source.path, schema, file.header, nodes, waits, groups, tuple(found))


def _decoded(file: ArrayFile, data: bytes, start: int, issues: list[Issue]) -> list[EtPlusNode]:
    """The nodes of a chunk; where something in it cannot be read, all others."""
    try:
        # What nodes keep as it stands is decoded later: all of it has to be text.
        return _NODES.decode("[" + data.strip().strip(b",").decode() + "]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    kept, found = recover(data, start, shape_of(file.first_key, NODE_MEMBER))
    issues += found
    nodes = []
    for recovered in kept:
        try:
            nodes.append(msgspec.json.decode(msgspec.json.encode(recovered.value), type=EtPlusNode))
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
            details = {"error": str(error)}
            issues.append(Issue(FindingCode.NODE_UNREADABLE, recovered.byte, Loss(1, 1), details))
    return nodes


def _groups(node: EtPlusNode) -> dict[str, tuple[int, ...]]:
    """The process groups that a node lists."""
    try:
        inputs = msgspec.json.decode(bytes(node.inputs))
    except (msgspec.MsgspecError, RecursionError):
        return {}
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    texts = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
    return {
        name: tuple(ranks)
        for text in texts
        for name, ranks in groups_of_text(text).select("pg_name", "ranks").iter_rows()
        if name is not None and ranks is not None
    }
