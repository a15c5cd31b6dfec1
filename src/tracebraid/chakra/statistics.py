"""Statistics of `.et` files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.dependencies import depths, ends, rank_dependencies, run_order
from tracebraid.chakra.job_files import find_chakra_files
from tracebraid.chakra.schema import ChakraRank
from tracebraid.chakra.wire.reading import read
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding

_INT, _NAME, _TEXT = Kind.INT, Kind.NAME, Kind.TEXT
_RANK = Column("rank", _INT, "the rank, by the number of its file; null: all ranks together")
CHAKRA_RANK_STATS = Table(
    "chakra_rank_stats",
    "One row per rank, and one for all: sums, and of depth, chain and width the largest.",
    (
        _RANK,
        Column("nodes", _INT, "nodes"),
        Column("data_deps", _INT, "data dependencies"),
        Column("ctrl_deps", _INT, "control dependencies"),
        Column("never_run", _INT, "nodes of circles, and those that wait for them"),
        Column("host_us", _INT, "durations of nodes of the host, summed"),
        Column("compute_us", _INT, "durations of nodes that compute on a device, summed"),
        Column("communication_us", _INT, "durations that communication has in the file, summed"),
        Column("communication_bytes", _INT, "`comm_size` of collectives, sends and receives, summed"),
        Column("depth", _INT, "nodes of the longest chain of nodes that wait for each other"),
        Column(
            "chain_us",
            _INT,
            "the longest such chain by durations: a lower bound of the rank's time, with any number of lanes",
        ),
        Column("widest", _INT, "most nodes at the same depth: about as many can be ready at once"),
    ),
)
CHAKRA_NODE_STATS = Table(
    "chakra_node_stats",
    "One row per rank, type and kind of nodes, and likewise of all ranks together.",
    (
        _RANK,
        Column("type", _NAME, "Chakra's `NodeType`"),
        Column("kind", _NAME, "their kind in the file; null: not stated"),
        Column("nodes", _INT, "nodes"),
        Column("duration_us", _INT, "their `duration_micros`, summed"),
        Column("duration_ns", _INT, "their exact durations, summed; null: the file does not say"),
    ),
)
CHAKRA_COMMUNICATION_STATS = Table(
    "chakra_communication_stats",
    "One row per rank, kind of communication and process group, and likewise of all ranks together.",
    (
        _RANK,
        Column("type", _NAME, "Chakra's `CollectiveCommType`, or `COMM_SEND_NODE` or `COMM_RECV_NODE`"),
        Column("collective", _NAME, "its name in the trace; null: not stated"),
        Column("pg_name", _TEXT, "the process group; null: all ranks, or a send or receive"),
        Column("nodes", _INT, "nodes"),
        Column("size_bytes", _INT, "their `comm_size`, summed"),
    ),
)


class ChakraStats(Struct, frozen=True, eq=False):
    """Statistics of `.et` files.

    Args:
        ranks: `CHAKRA_RANK_STATS`.
        nodes: `CHAKRA_NODE_STATS`.
        communication: `CHAKRA_COMMUNICATION_STATS`.
        findings: findings in the files: of one that is damaged or cut off, what could not be counted.
    """

    ranks: pl.DataFrame
    nodes: pl.DataFrame
    communication: pl.DataFrame
    findings: tuple[Finding, ...] = ()


def stats(
    paths: str | Path | Sequence[str | Path], *, progress: Callable[[float], None] | None = None
) -> ChakraStats:
    """Compute statistics of `.et` files: nodes, durations, bytes, dependencies, by rank and in total.

    Args:
        paths: a folder of `PREFIX.RANK.et`, such a prefix, or the files.
        progress: called with the finished share, 0 to 1.

    Raises:
        InputError: there is no such file, or it cannot be read.
        MissingLibraryError: protobuf is not installed.

    Example:
        ``tracebraid.chakra.stats("job").communication``
    """
    files = find_chakra_files(paths, comm_group="").files
    ranks = []
    for number, file in enumerate(files):
        ranks.append(rank_stats(replace(read(file.path), rank=file.rank)))
        if progress is not None:
            progress((number + 1) / len(files))
    return job_stats(ranks)


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
        duration_ns=_sum_if_stated("duration_ns"),
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


def _sum_if_stated(column: str) -> pl.Expr:
    """The sum; null if no row says."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())


def _with_sums(table: Table, ranks: Sequence[pl.DataFrame], keys: tuple[str, ...]) -> pl.DataFrame:
    each = pl.concat(ranks)
    sums = [name for name in each.columns if name not in ("rank", *keys)]
    text = each.with_columns(pl.col(keys).cast(pl.String))
    total = text.group_by(keys).agg(_sum_if_stated(name).alias(name) for name in sums).sort(keys)
    return _with_total(table, text, total)


def _with_total(table: Table, each: pl.DataFrame, total: pl.DataFrame) -> pl.DataFrame:
    together = total.with_columns(rank=pl.lit(None, dtype=pl.Int64)).select(each.columns)
    return table.conform(pl.concat([each, together]))
