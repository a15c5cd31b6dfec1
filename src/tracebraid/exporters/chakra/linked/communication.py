"""Which nodes of an ET+ file communicate, and what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from tracebraid.exporters.chakra.plan.communication_mapping import comm_type_of, least_bytes, size_of_rule
from tracebraid.model.chakra.codes import Dialect, NodeType
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.collectives.communication_rules import Says, Subject, rule_of
from tracebraid.model.collectives.names import type_of

__all__ = ["communication_nodes"]

_PARAM_COMMS = "record_param_comms"
_LEVELS_UP = 8
"""So far above a kernel its collective's attributes are searched: between them stand an op of c10d and its autograd."""
_BACKENDS = ("nccl:", "gloo:", "rccl:", "mpi:", "ucc:")
"""How the ranges begin in which a backend does a collective."""
_PEER = re.compile(r"(?:send (\d{1,9})->(\d{1,9})|recv (\d{1,9})<-(\d{1,9}))")
"""Ends of a message in the name of a range: `nccl:send 0->1`, `nccl:recv 1<-0`."""
_SCHEMA = {
    "node_id": pl.Int64,
    "type": pl.String,
    "collective": pl.String,
    "pg_name": pl.String,
    "group_size": pl.Int64,
    "in_bytes": pl.Int64,
    "out_bytes": pl.Int64,
    "peer": pl.Int64,
}


def communication_nodes(nodes: pl.DataFrame, dialect: Dialect) -> pl.DataFrame:
    """One row per node that communicates: `node_id`, `node_type`, `comm_type`, `comm_size`, `peer`, `pg_name`.

    Where what is communicated is unknown, or of a message how much or with whom, `node_type` is null. A collective may
    be of unknown size: another member may say it.

    Args:
        nodes: `ET_PLUS_NODES` with names as text.
        dialect: which types of communication nodes may have.
    """
    rows = {row["node_id"]: row for row in nodes.iter_rows(named=True)}
    collectives = {
        row["parent_id"]: row
        for row in rows.values()
        if row["name"] == _PARAM_COMMS and row["collective_name"]
    }
    found = [_described(row, rows, collectives) for row in _communicating(rows)]
    kind, is_barrier = pl.col("type"), pl.col("type") == CollectiveType.BARRIER.value
    is_pair = kind.is_in([CollectiveType.SEND.value, CollectiveType.RECEIVE.value])
    size = pl.when(is_barrier).then(pl.lit(least_bytes(dialect), dtype=pl.Int64)).otherwise(size_of_rule())
    least = pl.when(size > 0).then(pl.max_horizontal(size, pl.lit(least_bytes(dialect))))
    described = pl.DataFrame(found, schema=_SCHEMA).with_columns(
        comm_type=kind.replace_strict(comm_type_of(dialect), default=None, return_dtype=pl.String),
        comm_size=least,
    )
    known = pl.col("comm_size").is_not_null()
    pairs = {
        CollectiveType.SEND.value: NodeType.COMM_SEND_NODE.name,
        CollectiveType.RECEIVE.value: NodeType.COMM_RECV_NODE.name,
    }
    return described.with_columns(
        node_type=pl.when(is_pair & known & pl.col("peer").is_not_null())
        .then(kind.replace_strict(pairs, default=None, return_dtype=pl.String))
        .when(pl.col("comm_type").is_not_null())
        .then(pl.lit(NodeType.COMM_COLL_NODE.name))
    )


def _communicating(rows: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Kernels of communication; ranges of a backend without kernels; where there is neither, the attributes' nodes."""
    timed = [row for row in rows.values() if row["ts_ns"] is not None]
    kernels = [row for row in timed if row["category"] == "kernel" and _communicates(row["name"])]
    on_host = [row for row in timed if row["category"] is None]
    ranges = [row for row in on_host if _is_range(row["name"])]
    if kernels:
        ranges = [row for row in ranges if row["name"].startswith("gloo:")]
    if kernels or ranges:
        return [*kernels, *ranges]
    return [row for row in on_host if row["collective_name"] and type_of(row["collective_name"])]


def _communicates(kernel: str) -> bool:
    rule = rule_of(kernel, Subject.KERNEL)
    return rule is not None and rule.says is Says.COMMUNICATES


def _is_range(name: str) -> bool:
    return name.lower().startswith(_BACKENDS) and type_of(name) is not None


def _described(
    row: dict[str, Any], rows: dict[int, dict[str, Any]], collectives: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """What a node communicates: by the attributes above it, by the range around it, or by its own name."""
    above = [row, *_above(row, rows)]
    attributes = next((found for found in map(_collective_of(collectives), above) if found is not None), None)
    named = [part for part in above if _is_range(part["name"])] or [row]
    sources = [part for part in (attributes, *named, row) if part is not None]
    names = [attributes["collective_name"]] if attributes else []
    names += [part["name"] for part in named]
    kinds = [(type_of(name), name) for name in names if type_of(name) is not None]
    kind, name = kinds[0] if kinds else (type_of(row["name"]), row["name"])
    peer = next((ends for part in named for ends in _ends(part["name"])), None)
    return {
        "node_id": row["node_id"],
        "type": kind,
        "collective": name.partition("(")[0],
        "pg_name": _first([*sources, *above], "pg_name"),
        "group_size": _first(sources, "pg_size"),
        "in_bytes": _first(sources, "in_bytes"),
        "out_bytes": _first(sources, "out_bytes"),
        "peer": peer if peer is not None else _first(sources, "peer"),
    }


def _collective_of(collectives: dict[int, dict[str, Any]]) -> Any:
    def found(part: dict[str, Any]) -> dict[str, Any] | None:
        return part if part["collective_name"] else collectives.get(part["node_id"])

    return found


def _above(row: dict[str, Any], rows: dict[int, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for _ in range(_LEVELS_UP):
        parent = rows.get(row["parent_id"])
        if parent is None or parent["ts_ns"] is None:
            return
        yield parent
        row = parent


def _first(sources: list[dict[str, Any]], column: str) -> Any:
    return next((source[column] for source in sources if source[column] is not None), None)


def _ends(name: str) -> Iterator[int]:
    match = _PEER.search(name)
    if match is not None:
        yield int(match[2] or match[4])
