"""The communication of a rank in the order in which it issues it, and what is wrong with it."""

from __future__ import annotations

import polars as pl

from tracebraid.chakra.checking.lint_located import Located
from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.model.chakra.lint import LintFinding
from tracebraid.model.chakra.lint_code import LintCode

__all__ = ["ALL_RANKS", "COMMUNICATION_TYPES", "communication_faults", "communication_of"]

COMMUNICATION_TYPES = (
    NodeType.COMM_COLL_NODE.name,
    NodeType.COMM_SEND_NODE.name,
    NodeType.COMM_RECV_NODE.name,
)
ALL_RANKS = "0"
"""The process group of all ranks, which no name stands for as well."""
_GROUP_LIMIT = 2**31
_COLLECTIVE, _SEND, _RECEIVE = COMMUNICATION_TYPES


def communication_of(nodes: pl.DataFrame, rank: int) -> pl.DataFrame:
    """The nodes that communicate, in the order of the file.

    `row` is that of the node; `type` and `comm_type` are text; `group` is the process group as a number in text, or
    what stands in its stead; `src` and `dst` are the two ends of a send or receive.
    """
    kind, own = pl.col("type"), pl.lit(rank, dtype=pl.Int64)
    number = pl.col("pg_name").str.to_integer(strict=False)
    is_number = number.is_between(0, _GROUP_LIMIT - 1)
    name = pl.col("pg_name").fill_null("")
    return (
        nodes.with_row_index("row")
        .filter(kind.is_in(COMMUNICATION_TYPES))
        .with_columns(
            pl.col("row").cast(pl.Int64),
            comm_type=pl.col("comm_type").cast(pl.String),
            group=pl.when(name == "")
            .then(pl.lit(ALL_RANKS))
            .when(is_number)
            .then(number.cast(pl.String))
            .otherwise(name),
            is_group_number=(name == "") | is_number.fill_null(False),
            src=pl.when(kind == _SEND).then(own).when(kind == _RECEIVE).then(pl.col("comm_src")),
            dst=pl.when(kind == _RECEIVE).then(own).when(kind == _SEND).then(pl.col("comm_dst")),
        )
        .with_columns(group=pl.when(kind == _COLLECTIVE).then(pl.col("group")))
    )


def communication_faults(nodes: pl.DataFrame, located: Located) -> list[LintFinding]:
    """What is missing or makes no sense, without the other ranks.

    Args:
        nodes: as `communication_of` returns them.
        located: of the rank.
    """
    kind, size, rank = pl.col("type"), pl.col("comm_size"), located.rank
    comm_type, is_collective = pl.col("comm_type"), pl.col("type") == _COLLECTIVE
    barrier = (comm_type == CollectiveCommType.BARRIER.name).fill_null(False)
    known = comm_type.is_in([name.name for name in CollectiveCommType])
    to_itself = (~is_collective) & (pl.col("src") == pl.col("dst"))
    found = [
        *located.where(nodes, pl.col("is_cpu_op").fill_null(False), LintCode.COMMUNICATION_ON_HOST),
        *located.where(nodes, is_collective & comm_type.is_null(), LintCode.COLLECTIVE_TYPE_MISSING),
        *located.where_values(
            nodes, is_collective & ~known, LintCode.COLLECTIVE_TYPE_UNKNOWN, "type", "comm_type"
        ),
        *located.where(nodes, size.is_null() & ~barrier, LintCode.SIZE_MISSING),
        *located.where_values(nodes, size < 0, LintCode.SIZE_NEGATIVE, "size", "comm_size"),
        *located.where(nodes, to_itself, LintCode.PEER_IS_SELF),
        *located.where_values(
            nodes, is_collective & ~pl.col("is_group_number"), LintCode.GROUP_NOT_A_NUMBER, "group", "group"
        ),
    ]
    ends = ((_SEND, "dst", "comm_dst", "comm_src"), (_RECEIVE, "src", "comm_src", "comm_dst"))
    for of_type, peer, attribute, own in ends:
        without = nodes.filter((kind == of_type) & pl.col(peer).is_null()).get_column("node_id")
        if len(without):
            found.append(located.finding(LintCode.PEER_MISSING, without, which=attribute))
        foreign = nodes.filter((kind == of_type) & (pl.col(own) != rank))
        if foreign.height:
            details = {"attribute": own, "named": foreign.item(0, own), "rank": rank}
            ids = foreign.get_column("node_id")
            found.append(located.finding(LintCode.ISSUED_FOR_ANOTHER, ids, **details))
    return found
