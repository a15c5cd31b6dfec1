"""A part of one `.et` file: which nodes it has, and what waits for what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import polars as pl

from tracebraid.model.chakra.codes import NodeType
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding

__all__ = ["CHAKRA_EDGES", "ChakraPart", "DependencyKind", "PartChoice"]


class DependencyKind(Enum):
    """Which list of a node has a dependency."""

    DATA = "data"
    CONTROL = "control"


CHAKRA_EDGES = Table(
    "chakra_edges",
    "One row per dependency between nodes of an `.et` file.",
    (
        Column("source", Kind.INT, "the node that is waited for"),
        Column("target", Kind.INT, "the node that waits"),
        Column("kind", Kind.TEXT, "a code of `DependencyKind`"),
    ),
)


@dataclass(frozen=True)
class PartChoice:
    """Which nodes are chosen: those that fit all that is given, and what is near them.

    Args:
        nodes: ids; none: all.
        ids: the first and the last id; None: all.
        name: a text that names have in them; None: all.
        types: none: all.
        step: the step in which they were issued; None: all.
        top: so many of these that take the most time, and of those that have none the most bytes; None: all.
        near: those too that are so many dependencies away.
    """

    nodes: tuple[int, ...] = ()
    ids: tuple[int, int] | None = None
    name: str | None = None
    types: tuple[NodeType, ...] = ()
    step: str | None = None
    top: int | None = None
    near: int = 0


@dataclass(frozen=True, eq=False)
class ChakraPart:
    """A part of one `.et` file.

    Args:
        rank: the number in the file's name.
        nodes: `CHAKRA_NODES`, in the order of the file.
        edges: `CHAKRA_EDGES`, those between these nodes, and from those that are missing.
        missing: ids that these nodes wait for and that the file does not have.
        left_out: dependencies between these nodes and others of the file.
        nodes_of_file: how many nodes the file has.
        findings: what was noticed in the file.
    """

    rank: int
    nodes: pl.DataFrame
    edges: pl.DataFrame
    missing: tuple[int, ...]
    left_out: int
    nodes_of_file: int
    findings: tuple[Finding, ...] = ()
