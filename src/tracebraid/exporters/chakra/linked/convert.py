"""ET+ of a rank to the nodes of an `.et` file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracebraid.exporters.chakra.linked.communication import communication_nodes
from tracebraid.exporters.chakra.linked.order import Order, order_of
from tracebraid.exporters.chakra.reduction import reduced
from tracebraid.exporters.chakra.rounding import rounded_micros
from tracebraid.exporters.chakra.schema_version import SCHEMA_VERSION
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import Dialect, NodeType
from tracebraid.model.chakra.converted import ConvertedCounts
from tracebraid.model.chakra.et_plus import EtPlus
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.schema.chakra import CHAKRA_NODES
from tracebraid.model.units import NS_PER_US

__all__ = ["ConvertedRank", "convert_rank"]

_KINDS = {
    "kernel": ActivityKind.KERNEL.value,
    "gpu_memcpy": ActivityKind.COPY.value,
    "gpu_memset": ActivityKind.COPY.value,
}


@dataclass(frozen=True, eq=False)
class ConvertedRank:
    """A rank as nodes, and what became of the nodes of its ET+.

    Args:
        rank: the nodes; `pg_name` is as the trace has it.
        counts: what was converted and what was not.
    """

    rank: ChakraRank
    counts: ConvertedCounts


def convert_rank(et_plus: EtPlus, rank: int, dialect: Dialect) -> ConvertedRank:
    """The nodes of a rank.

    Ops of the host take their own time, without what they enclose; they follow each other on their thread, as device
    work does on its stream. Device work waits for the op that launched it. Ids count from 0 in the order of starts.

    Args:
        et_plus: the linked trace.
        rank: its number in the simulation.
        dialect: which types of communication nodes may have.

    Raises:
        MissingLibraryError: numba is not installed.
    """
    text = et_plus.nodes.with_columns(pl.col("name", "category", "shapes", "collective_name").cast(pl.String))
    unique = text.unique("node_id", keep="first", maintain_order=True)
    timed = unique.filter(pl.col("ts_ns").is_not_null())
    is_host, duration = pl.col("category").is_null(), pl.col("dur_ns")
    nodes = timed.sort(pl.col("ts_ns"), ~is_host, -duration, pl.col("node_id"))
    communication = communication_nodes(unique, dialect)
    order = order_of(nodes, et_plus.waits, communication)
    made = _chakra_nodes(nodes, communication, unique, order)
    counts = ConvertedCounts(
        rank=rank,
        nodes=et_plus.nodes.height,
        repeated=text.height - unique.height,
        untimed=unique.height - timed.height,
        host=nodes.filter(is_host).height,
        device=nodes.filter(~is_host).height,
        communications=communication.get_column("node_type").count(),
        communications_as_compute=communication.get_column("node_type").null_count(),
        waits_contradicted=order.contradicted,
        waits_unknown=order.unknown,
    )
    kept = reduced(order.before, order.after, order.lane)
    node_id = made.get_column("node_id").to_numpy()
    deps = NodeDeps.of_pairs(kept.before, kept.after, node_id)
    attributes = (("schema", et_plus.schema), ("converted_from", "ET+"), *counts.attributes())
    return ConvertedRank(
        ChakraRank(
            rank, SCHEMA_VERSION, attributes, made, deps, NodeDeps.none(made.height), et_plus.findings
        ),
        counts,
    )


def _chakra_nodes(
    nodes: pl.DataFrame, communication: pl.DataFrame, all_nodes: pl.DataFrame, order: Order
) -> pl.DataFrame:
    is_host, kind = pl.col("category").is_null(), pl.col("node_type")
    names = all_nodes.select(pl.col("node_id").alias("parent_id"), parent_name="name")
    columns = ("node_type", "comm_type", "comm_size", "collective", "peer", "pg_name")
    joined = (
        nodes.drop("pg_name", "peer")
        .join(communication.select("node_id", *columns), on="node_id", how="left", maintain_order="left")
        .join(names, on="parent_id", how="left", maintain_order="left")
    )
    takes = pl.when(is_host).then("exclusive_ns").otherwise("dur_ns")
    # A range of a backend holds no work of the host: what lies within is the transfer.
    takes = pl.when(kind.is_not_null()).then("dur_ns").otherwise(takes).clip(lower_bound=0)
    duration_ns = joined.select(takes).to_series().to_numpy()
    start_ns = joined.get_column("ts_ns").to_numpy()
    of_category = pl.col("category").replace_strict(_KINDS, default=ActivityKind.KERNEL.value)
    made = joined.select(
        node_id=pl.int_range(pl.len(), dtype=pl.Int64),
        name="name",
        type=kind.fill_null(NodeType.COMP_NODE.name),
        start_time_micros=pl.Series((start_ns - start_ns.min(initial=start_ns[0])) // NS_PER_US),
        duration_micros=pl.Series(rounded_micros(duration_ns, order.lane)),
        is_cpu_op=is_host & kind.is_null(),
        comm_type=pl.when(kind == NodeType.COMM_COLL_NODE.name).then("comm_type"),
        comm_size=pl.when(kind.is_not_null()).then("comm_size"),
        comm_src=pl.when(kind == NodeType.COMM_RECV_NODE.name).then("peer"),
        comm_dst=pl.when(kind == NodeType.COMM_SEND_NODE.name).then("peer"),
        comm_tag=pl.when(kind.is_in([NodeType.COMM_RECV_NODE.name, NodeType.COMM_SEND_NODE.name])).then(0),
        pg_name=pl.when(kind.is_not_null()).then("pg_name"),
        duration_ns=pl.Series(np.asarray(duration_ns, dtype=np.int64)),
        kind=pl.when(kind.is_not_null())
        .then(pl.lit(ActivityKind.COMMUNICATION.value))
        .when(is_host)
        .then(pl.lit(ActivityKind.OP.value))
        .otherwise(of_category),
        op=pl.when(is_host).then("name").otherwise("parent_name"),
        et_node_id=pl.when(is_host).then("node_id").otherwise("parent_id"),
        shapes="shapes",
        stream=pl.when(~is_host).then("stream"),
        thread=pl.when(is_host).then("tid"),
        collective="collective",
    )
    return CHAKRA_NODES.conform(made, fill_missing=True)
