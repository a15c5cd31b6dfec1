"""What of a job is simulated, from its linked ranks: `JobPlan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from tracebraid.exporters.chakra.plan.communication_mapping import comm_type_of, least_bytes, size_of_rule
from tracebraid.exporters.chakra.plan.consistent_order import Rows, consistent_order
from tracebraid.exporters.chakra.plan.met_on_host import HOST, PAIRED
from tracebraid.exporters.chakra.plan.plan_findings import plan_counts, plan_findings
from tracebraid.exporters.chakra.plan.planned_communication import planned_communication
from tracebraid.exporters.chakra.plan.planned_groups import GroupsOfRanks, groups_of_ranks, numbered_groups
from tracebraid.exporters.chakra.plan.traced_communication import traced_communication, with_known_groups
from tracebraid.exporters.chakra.plan.traced_groups import traced_groups, traced_world
from tracebraid.exporters.chakra.plan.world import TracedWorld, simulated_ranks
from tracebraid.model.chakra.codes import AloneReason, CollectiveCommType, Dialect, NodeType
from tracebraid.model.chakra.job_plan import JobPlan, PlanOptions
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.chakra import CHAKRA_COMMUNICATION

__all__ = ["plan_job"]

_ALONE = CollectiveCommType.BROADCAST.name
"""What a rank communicates alone is a broadcast in a group of its own, which simulators let last as measured."""


def plan_job(
    path: str, ranks: LinkedRanks, waits: pl.DataFrame, options: PlanOptions, least_confidence: float
) -> JobPlan:
    """What of a job is simulated: ranks, groups, and the communication of each rank in an order without circles.

    Args:
        path: what was opened, for messages.
        ranks: the ranks that have a trace, linked with each other.
        waits: the members of the ranks, in their order, with `transfer_ns` of each.
        options: what becomes of missing ranks, and which types of communication there may be.
        least_confidence: members that were matched with less are not simulated together, 0 to 1.

    Raises:
        InputError: ranks are missing, and may not be, or cannot be replicated.
        ArgumentError: the world is asked to be smaller than it is.
    """
    members, world = _world(path, ranks, waits)
    simulated = simulated_ranks(world, options)
    groups = groups_of_ranks(world, simulated, options)
    traced = traced_communication(members, ranks.collectives, world.groups, options.steps, least_confidence)
    rows = _ordered(planned_communication(traced, simulated, groups), groups)
    rows = _mapped(rows, options.dialect)
    used = rows.filter(pl.col("reason").is_null() & ~_is_pair()).get_column("entry").unique().sort().to_list()
    alone = rows.filter(pl.col("reason").is_not_null()).get_column("rank").unique().to_list()
    numbered = numbered_groups(groups, used, alone, world, simulated)
    numbers = _numbers(numbered.of_entry, numbered.alone)
    rows = rows.with_columns(pg_name=pl.when(~_is_pair() | pl.col("reason").is_not_null()).then(numbers))
    plan = JobPlan(options, world.size, simulated, numbered.groups, _communication(rows), plan_counts(rows))
    return replace(plan, findings=plan_findings(plan, world, rows))


def _world(path: str, ranks: LinkedRanks, waits: pl.DataFrame) -> tuple[pl.DataFrame, TracedWorld]:
    present = tuple(ranks.ranks.get_column("rank").sort())
    members = with_known_groups(waits, ranks.collectives, present)
    size = traced_world(ranks.ranks, ranks.members)
    groups = traced_groups(members, present, size)
    origins = {group.text: origin for origin, group in enumerate(groups)}
    of_peers = members.filter(_is_pair() | pl.col("is_exchange_of_some")).select("rank", "group").unique()
    paired: dict[int, set[int]] = {}
    for rank, group in of_peers.iter_rows():
        paired.setdefault(rank, set()).add(origins[group])
    frozen = {rank: frozenset(own) for rank, own in paired.items()}
    return members, TracedWorld(path, size, present, tuple(groups), frozen)


def _is_pair() -> pl.Expr:
    return pl.col("type").is_in(PAIRED).fill_null(value=False)


def _ordered(rows: pl.DataFrame, groups: GroupsOfRanks) -> pl.DataFrame:
    """The rows by rank and order, with `order`; what has no place in any order is alone."""
    pairs = rows.filter(_is_pair() & pl.col("reason").is_null())
    # A send and its receive are two items, of which the second waits for the first.
    is_receive = (pl.col("type") == CollectiveType.RECEIVE.value) & pl.col("reason").is_null()
    behind = pl.col("item").max() + 1 + pl.col("item")
    items = rows.select(pl.when(is_receive).then(behind).otherwise("item").fill_null(-1).alias("item"))
    dense = items.get_column("item").rank("dense").cast(pl.Int64) - 1
    rows = rows.with_columns(dense.alias("own_item"))
    halves = (
        rows.join(pairs.select("item").unique(), on="item", how="semi", maintain_order="left")
        .group_by("item", maintain_order=True)
        .agg(
            pl.col("own_item").filter(pl.col("type") == CollectiveType.SEND.value).first().alias("first"),
            pl.col("own_item").filter(pl.col("type") == CollectiveType.RECEIVE.value).first().alias("second"),
        )
    )
    # What the host does at once may overlap on one thread; a stream does one thing after the other.
    is_host = pl.col("device") == HOST
    stream = pl.struct("device", "stream", pl.when(is_host).then("row").alias("row"))
    columns = rows.select(
        "rank", "own_item", stream.rank("dense").cast(pl.Int64).alias("device"), "start_ns", "end_ns"
    )
    found = consistent_order(
        Rows(
            *(
                columns.get_column(name).to_numpy()
                for name in ("rank", "own_item", "device", "start_ns", "end_ns")
            ),
            *(halves.get_column(name).to_numpy() for name in ("first", "second")),
        )
    )
    reason = pl.when(pl.Series(found.broken)).then(pl.lit(AloneReason.ORDER.value)).otherwise("reason")
    return rows.with_columns(pl.Series("order", found.order), reason.alias("reason")).sort(
        "rank", "order", "row"
    )


def _mapped(rows: pl.DataFrame, dialect: Dialect) -> pl.DataFrame:
    """With `node_type`, `comm_type`, `size` (null: unknown), `comm_size`, `comm_tag` and `sizes_differ`."""
    together = pl.col("reason").is_null()
    most = [
        pl.when(together).then(pl.col(name).max().over("item")).otherwise(name).alias(name)
        for name in ("in_bytes", "out_bytes")
    ]
    own = size_of_rule()
    rows = rows.with_columns(own.alias("own_size")).with_columns(
        (pl.col("own_size").drop_nulls().n_unique().over("item") > 1).alias("sizes_differ") & together, *most
    )
    is_send = pl.col("type") == CollectiveType.SEND.value
    pair = (
        pl.when(is_send)
        .then(pl.lit(NodeType.COMM_SEND_NODE.name))
        .otherwise(pl.lit(NodeType.COMM_RECV_NODE.name))
    )
    of_type = pl.col("type").replace_strict(comm_type_of(dialect), default=None, return_dtype=pl.String)
    least = pl.lit(least_bytes(dialect), dtype=pl.Int64)
    return rows.with_columns(
        pl.when(together & _is_pair())
        .then(pair)
        .otherwise(pl.lit(NodeType.COMM_COLL_NODE.name))
        .alias("node_type"),
        pl.when(~together).then(pl.lit(_ALONE)).when(~_is_pair()).then(of_type).alias("comm_type"),
        size_of_rule().alias("size"),
        pl.when(together & _is_pair()).then("number").alias("comm_tag"),
    ).with_columns(pl.max_horizontal(pl.col("size").fill_null(0), least).alias("comm_size"))


def _numbers(of_entry: Mapping[int, int], alone: Mapping[int, int]) -> pl.Expr:
    """The number of the group of each row as text; null: all ranks."""
    together = pl.col("entry").replace_strict(of_entry, default=None, return_dtype=pl.Int64)
    own = pl.col("rank").replace_strict(alone, default=None, return_dtype=pl.Int64)
    number = pl.when(pl.col("reason").is_null()).then(together).otherwise(own)
    return pl.when(number > 0).then(number.cast(pl.String))


def _communication(rows: pl.DataFrame) -> pl.DataFrame:
    is_send = pl.col("node_type") == NodeType.COMM_SEND_NODE.name
    is_receive = pl.col("node_type") == NodeType.COMM_RECV_NODE.name
    duration = pl.col("end_ns") - pl.col("start_ns")
    found = rows.select(
        "rank",
        "event_id",
        pl.col("node_type").alias("type"),
        "comm_type",
        "comm_size",
        pl.when(is_receive).then("from_rank").alias("comm_src"),
        pl.when(is_send).then("to_rank").alias("comm_dst"),
        "comm_tag",
        "pg_name",
        pl.coalesce("type", "name").alias("collective"),
        pl.when(pl.col("reason").is_null()).then("transfer_ns").otherwise(duration).alias("transfer_ns"),
        "order",
    )
    return found.select("rank").hstack(CHAKRA_COMMUNICATION.conform(found))
