"""Select a part of an `.et` file: nodes, and the dependencies between them."""

from __future__ import annotations

from enum import Enum

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.schema import ChakraRank, NodeDeps
from tracebraid.errors import ArgumentError
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding


class DependencyKind(Enum):
    """List of a node that contains a dependency."""

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


class PartChoice(Struct, frozen=True):
    """Selection of nodes: those that match all criteria, and their neighbours.

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


class ChakraPart(Struct, frozen=True, eq=False):
    """A part of one `.et` file.

    Args:
        rank: the number in the file's name.
        nodes: `CHAKRA_NODES`, in the order of the file.
        edges: `CHAKRA_EDGES`, those between these nodes, and from those that are missing.
        missing: ids that these nodes wait for and that the file does not have.
        left_out: dependencies between these nodes and others of the file.
        nodes_of_file: how many nodes the file has.
        findings: findings in the file.
    """

    rank: int
    nodes: pl.DataFrame
    edges: pl.DataFrame
    missing: tuple[int, ...]
    left_out: int
    nodes_of_file: int
    findings: tuple[Finding, ...] = ()


_Bools = NDArray[np.bool_]
_SHOWN = 8
"""Steps and ids that a message names."""


def chosen_part(rank: ChakraRank, choice: PartChoice) -> ChakraPart:
    """The nodes that are chosen, with the dependencies between them."""
    nodes = rank.nodes.with_row_index("row")
    edges = _edges(rank)
    chosen = np.zeros(rank.nodes.height, dtype=np.bool_)
    chosen[_matching(nodes, choice).get_column("row").to_numpy()] = True
    known = edges.drop_nulls("source_row")
    source, target = known.get_column("source_row").to_numpy(), known.get_column("target_row").to_numpy()
    for _ in range(choice.near):
        reached = chosen.copy()
        reached[target[chosen[source]]] = True
        reached[source[chosen[target]]] = True
        if (reached == chosen).all():
            break
        chosen = reached
    return _part(rank, edges, chosen)


def whole_part(rank: ChakraRank) -> ChakraPart:
    """All nodes of a file, which may have none."""
    return _part(rank, _edges(rank), np.ones(rank.nodes.height, dtype=np.bool_))


def _part(rank: ChakraRank, edges: pl.DataFrame, chosen: _Bools) -> ChakraPart:
    inside = pl.Series(chosen)
    edges = edges.with_columns(
        waits=inside.gather(edges.get_column("target_row")),
        waited_for=inside.gather(edges.get_column("source_row")),
    )
    # From a node that is missing there is no row.
    kept = edges.filter(pl.col("waits") & pl.col("waited_for").fill_null(True))
    missing = kept.filter(pl.col("source_row").is_null()).get_column("source").unique().sort()
    left_out = edges.select((pl.col("waits") != pl.col("waited_for")).sum()).item()
    return ChakraPart(
        rank.rank,
        rank.nodes.filter(inside),
        CHAKRA_EDGES.conform(kept),
        tuple(missing.to_list()),
        left_out,
        rank.nodes.height,
        rank.findings,
    )


def _edges(rank: ChakraRank) -> pl.DataFrame:
    """`CHAKRA_EDGES`, with the rows of both ends; of nodes with the same id the first counts."""
    rows = (
        rank.nodes.select(source="node_id", source_row=pl.int_range(pl.len()))
        .unique("source", keep="first")
        .sort("source")
    )
    node_id = rank.nodes.get_column("node_id")
    both = ((rank.data_deps, DependencyKind.DATA), (rank.ctrl_deps, DependencyKind.CONTROL))
    edges = pl.concat([_of_kind(deps, kind, node_id) for deps, kind in both])
    return edges.join(rows, on="source", how="left", maintain_order="left")


def _of_kind(deps: NodeDeps, kind: DependencyKind, node_id: pl.Series) -> pl.DataFrame:
    row = pl.Series(deps.rows(), dtype=pl.Int64)
    return pl.DataFrame(
        {"source": pl.Series(deps.node_id, dtype=pl.Int64), "target": node_id.gather(row), "target_row": row}
    ).with_columns(kind=pl.lit(kind.value))


def _matching(nodes: pl.DataFrame, choice: PartChoice) -> pl.DataFrame:
    found = nodes
    if choice.nodes:
        _check_ids(nodes, choice.nodes)
        found = found.filter(pl.col("node_id").is_in(choice.nodes))
    if choice.ids is not None:
        found = found.filter(pl.col("node_id").is_between(*choice.ids))
    if choice.name is not None:
        found = found.filter(pl.col("name").cast(pl.String).str.contains(choice.name, literal=True))
    if choice.types:
        found = found.filter(pl.col("type").cast(pl.String).is_in([kind.name for kind in choice.types]))
    if choice.step is not None:
        _check_step(nodes, choice.step)
        found = found.filter(pl.col("step").cast(pl.String) == choice.step)
    if choice.top is not None:
        took = pl.col("duration_ns").fill_null(pl.col("duration_micros") * 1000).fill_null(0)
        by = [took, pl.col("comm_size").fill_null(0), pl.col("row")]
        found = found.sort(by, descending=[True, True, False]).head(choice.top)
    if found.is_empty():
        raise ArgumentError("no node of the file matches all criteria: use fewer")
    return found


def _check_ids(nodes: pl.DataFrame, ids: tuple[int, ...]) -> None:
    node_id = nodes.get_column("node_id")
    absent = sorted(set(ids) - set(node_id.filter(node_id.is_in(ids))))
    if absent:
        named = ", ".join(map(str, absent[:_SHOWN]))
        first, last = nodes.select(first=pl.col("node_id").min(), last=pl.col("node_id").max()).row(0)
        raise ArgumentError(
            f"there is no node {named}: the {len(node_id):,} ids of the file are {first} to {last}"
        )


def _check_step(nodes: pl.DataFrame, step: str) -> None:
    steps = nodes.get_column("step").drop_nulls().cast(pl.String).unique(maintain_order=True).to_list()
    if step not in steps:
        named = ", ".join(steps[:_SHOWN]) + (", ..." if len(steps) > _SHOWN else "")
        there = f"there are {named}" if steps else "the nodes of this file name no step"
        raise ArgumentError(f"there is no step {step!r}; {there}")
