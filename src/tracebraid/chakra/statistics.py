"""What a rank's `.et` file holds, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracebraid.chakra.dependencies import depths, ends, rank_dependencies, run_order
from tracebraid.model.answers.chakra_stats import (
    CHAKRA_COMMUNICATION_STATS,
    CHAKRA_NODE_STATS,
    CHAKRA_RANK_STATS,
)
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.chakra.codes import NodeType
from tracebraid.model.chakra.stats import ChakraStats
from tracebraid.model.column import Table

__all__ = ["job_stats", "rank_stats"]

_COMMUNICATION = [
    NodeType.COMM_COLL_NODE.name,
    NodeType.COMM_SEND_NODE.name,
    NodeType.COMM_RECV_NODE.name,
]
_LARGEST = ("depth", "chain_us", "widest")


def rank_stats(rank: ChakraRank) -> ChakraStats:
    """The numbers of one rank."""
    number = pl.lit(rank.rank, dtype=pl.Int64).alias("rank")
    columns = ("type", "kind", "duration_micros", "duration_ns", "is_cpu_op")
    further = ("comm_type", "comm_size", "collective", "pg_name")
    nodes = rank.nodes.select(*columns, *further).with_columns(
        pl.col("type", "kind", "comm_type", "collective").cast(pl.String)
    )
    by_kind = nodes.group_by("type", "kind").agg(
        nodes=pl.len(),
        duration_us=pl.col("duration_micros").sum(),
        duration_ns=_sum_where_said("duration_ns"),
    )
    is_collective = pl.col("type") == NodeType.COMM_COLL_NODE.name
    communicates = nodes.filter(pl.col("type").is_in(_COMMUNICATION)).with_columns(
        type=pl.when(is_collective).then("comm_type").otherwise("type"),
        pg_name=pl.when(is_collective & ~pl.col("pg_name").is_in(["", "0"])).then("pg_name"),
    )
    by_group = communicates.group_by("type", "collective", "pg_name").agg(
        nodes=pl.len(), size_bytes=pl.col("comm_size").sum()
    )
    return ChakraStats(
        CHAKRA_RANK_STATS.conform(pl.DataFrame([_totals(rank, nodes)])),
        CHAKRA_NODE_STATS.conform(by_kind.select(number, pl.all()).sort("type", "kind")),
        CHAKRA_COMMUNICATION_STATS.conform(
            by_group.select(number, pl.all()).sort("type", "collective", "pg_name")
        ),
        rank.findings,
    )


def job_stats(ranks: Sequence[ChakraStats]) -> ChakraStats:
    """The numbers of all ranks, and behind them those of all together."""
    sums = [column.name for column in CHAKRA_RANK_STATS.columns if column.name not in ("rank", *_LARGEST)]
    each = pl.concat([stats.ranks for stats in ranks])
    total = each.select(pl.col(sums).sum(), pl.col(_LARGEST).max())
    return ChakraStats(
        _with_total(CHAKRA_RANK_STATS, each, total),
        _with_sums(CHAKRA_NODE_STATS, [stats.nodes for stats in ranks], ("type", "kind")),
        _with_sums(
            CHAKRA_COMMUNICATION_STATS,
            [stats.communication for stats in ranks],
            ("type", "collective", "pg_name"),
        ),
        tuple(finding for stats in ranks for finding in stats.findings),
    )


def _totals(rank: ChakraRank, nodes: pl.DataFrame) -> dict[str, int]:
    dependencies = rank_dependencies(rank)
    order = run_order(dependencies)
    duration = nodes.get_column("duration_micros").fill_null(0).clip(lower_bound=0).to_numpy()
    depth = depths(dependencies.first, dependencies.before, order)[order]
    end = ends(dependencies.first, dependencies.before, order, duration)
    is_host = nodes.get_column("is_cpu_op").fill_null(False)
    is_communication = nodes.get_column("type").is_in(_COMMUNICATION)
    return {
        "rank": rank.rank,
        "nodes": nodes.height,
        "data_deps": len(rank.data_deps),
        "ctrl_deps": len(rank.ctrl_deps),
        "never_run": nodes.height - len(order),
        "host_us": int(duration[(is_host & ~is_communication).to_numpy()].sum()),
        "compute_us": int(duration[(~is_host & ~is_communication).to_numpy()].sum()),
        "communication_us": int(duration[is_communication.to_numpy()].sum()),
        "communication_bytes": int(nodes.filter(is_communication).get_column("comm_size").sum() or 0),
        "depth": int(depth.max(initial=-1)) + 1,
        "chain_us": int(end.max(initial=0)),
        "widest": int(np.bincount(depth).max(initial=0)),
    }


def _sum_where_said(column: str) -> pl.Expr:
    """The sum; null where no row says."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())


def _with_sums(table: Table, ranks: Sequence[pl.DataFrame], keys: tuple[str, ...]) -> pl.DataFrame:
    each = pl.concat(ranks)
    sums = [name for name in each.columns if name not in ("rank", *keys)]
    text = each.with_columns(pl.col(keys).cast(pl.String))
    total = text.group_by(keys).agg(_sum_where_said(name).alias(name) for name in sums).sort(keys)
    return _with_total(table, text, total)


def _with_total(table: Table, each: pl.DataFrame, total: pl.DataFrame) -> pl.DataFrame:
    together = total.with_columns(rank=pl.lit(None, dtype=pl.Int64)).select(each.columns)
    return table.conform(pl.concat([each, together]))
