"""`EtPlus`: a linked trace of one rank, as ET+ JSON has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding

__all__ = ["ET_PLUS_NODES", "EtPlus"]

_INT, _NAME, _TEXT, _JSON = Kind.INT, Kind.NAME, Kind.TEXT, Kind.JSON

ET_PLUS_NODES = Table(
    "et_plus_nodes",
    "One row per node of an ET+ file, in the order of the file.",
    (
        Column("node_id", _INT, "its id"),
        Column("name", _NAME, "its name"),
        Column("parent_id", _INT, "node that encloses it, or that launched it; null: none"),
        Column("ts_ns", _INT, "start, on a clock of the file's own; null: it was not linked"),
        Column("dur_ns", _INT, "duration with what it encloses; null: it was not linked"),
        Column("exclusive_ns", _INT, "duration without what it encloses; null: it was not linked"),
        Column("category", _NAME, "of device work, such as `kernel`; null: an op of the host"),
        Column("stream", _INT, "stream of device work; null: none"),
        Column("tid", _INT, "thread of an op; null: unknown"),
        Column("shapes", _JSON, "shapes of its inputs; null: none"),
        Column("collective_name", _NAME, "what the trace calls the collective; null: none"),
        Column("pg_name", _TEXT, "process group; null: not said"),
        Column("pg_size", _INT, "ranks of the process group; null: not said"),
        Column("in_bytes", _INT, "bytes that a communication gives; null: unknown, or no communication"),
        Column("out_bytes", _INT, "bytes that it gets; null: unknown, or no communication"),
        Column("peer", _INT, "the other rank of a send or receive; null: not said"),
    ),
)


@dataclass(frozen=True, eq=False)
class EtPlus:
    """A linked trace of one rank.

    Args:
        path: of the file.
        schema: its version.
        header: members of the file beside its nodes.
        nodes: `ET_PLUS_NODES`.
        waits: pairs of ids: the node that waits, and the one that it waits for (`inter_thread_dep`, `sync_dep`).
        groups: ranks of the process groups that the file lists; none: all ranks.
        findings: what was noticed while it was read.
    """

    path: str
    schema: str
    header: Mapping[str, object]
    nodes: pl.DataFrame
    waits: Sequence[tuple[int, int]]
    groups: Mapping[str, tuple[int, ...]]
    findings: tuple[Finding, ...] = ()
