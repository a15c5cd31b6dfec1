"""The part of a rank that is asked for."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.part import CHAKRA_EDGES, ChakraPart, DependencyKind, PartChoice

__all__ = ["chosen_part", "whole_part"]

_Bools = NDArray[np.bool_]
_SHOWN = 8
"""Steps and ids that a message names."""


def chosen_part(rank: ChakraRank, choice: PartChoice) -> ChakraPart:
    """The nodes that are chosen, with the dependencies between them.

    Args:
        rank: all nodes of the file.
        choice: which of them.

    Raises:
        ArgumentError: no node is chosen, or the file has no such node or step.
    """
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
        raise ArgumentError("no node of the file is what was asked for: ask for less at once")
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
