"""Nodes as ASTRA-sim runs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import NodeType

__all__ = ["for_astra_sim"]


def for_astra_sim(rank: ChakraRank) -> ChakraRank:
    """The rank with host work in the lane of compute, chained collectives, and a FLOP at least where bytes are moved.

    ASTRA-sim has a lane for nodes with `is_cpu_op`, times them, and fails when it adds up what it did (`Only GPU and
    COMM types are supported`). Without that mark they are run like kernels, one at a time with them: a rank whose host
    works beside its device takes longer than it did. With `Detail.MERGED` none has the mark.

    With its roofline it divides FLOPs by the rate that their share of bytes allows: 0 by 0 where there are bytes alone.
    With one FLOP the time is that of the bytes.

    It has one lane for communication, and collectives meet by the order in which each rank issues them: of two that are
    ready at once the wrong one would be issued for ever. Each waits for the one before it, as it would in the lane.

    Args:
        rank: as it would be without ASTRA-sim; ids are rows.
    """
    rank = replace(rank, nodes=rank.nodes.with_columns(_least_num_ops()), data_deps=_chained(rank))
    marked = rank.nodes.get_column("is_cpu_op").sum()
    if not marked:
        return rank
    nodes = rank.nodes.with_columns(pl.lit(None, dtype=pl.Boolean).alias("is_cpu_op"))
    return replace(
        rank, nodes=nodes, attributes=(*rank.attributes, ("host_nodes_in_compute_lane", int(marked)))
    )


def _chained(rank: ChakraRank) -> NodeDeps:
    """What nodes wait for, and each collective also for the one before it."""
    is_collective = pl.col("type") == NodeType.COMM_COLL_NODE.name
    rows = rank.nodes.select(is_collective.alias("found")).to_series().arg_true().to_numpy()
    deps = rank.data_deps
    before = np.concatenate([deps.node_id, rows[:-1].astype(np.int64)])
    after = np.concatenate([deps.rows(), rows[1:].astype(np.int64)])
    return NodeDeps.of_pairs(before, after, rank.nodes.get_column("node_id").to_numpy())


def _least_num_ops() -> pl.Expr:
    moves = (pl.col("tensor_size") > 0) & (pl.col("num_ops").fill_null(0) == 0)
    return pl.when(moves).then(pl.lit(1, dtype=pl.Int64)).otherwise("num_ops").alias("num_ops")
