"""What each simulated rank communicates, with whom together, and what it does alone."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.exporters.chakra.plan.met_on_host import PAIRED
from tracebraid.exporters.chakra.plan.planned_groups import GroupsOfRanks
from tracebraid.model.chakra.codes import AloneReason
from tracebraid.model.chakra.job_plan import PlannedRank
from tracebraid.model.collectives.codes import CollectiveType

__all__ = ["planned_communication"]

_SEND = CollectiveType.SEND.value
_IS_PAIR = pl.col("type").is_in(PAIRED).fill_null(value=False)


def planned_communication(
    traced: pl.DataFrame, ranks: Sequence[PlannedRank], groups: GroupsOfRanks
) -> pl.DataFrame:
    """The rows of `traced_communication` of each simulated rank, by rank.

    Further columns:
        rank: the simulated rank.
        entry: place of its group in `groups`; null: its ranks are not known.
        from_rank, to_rank: of a send or a receive, dense; null: the peer is not simulated.
        item: what ranks do together has the same number on all of them, a send and its receive have too; what a rank
            does alone has a number of its own.
        reason: as there; of what not all ranks of the group do, or on what they disagree, as well.

    Args:
        traced: as of `traced_communication`.
        ranks: the simulated ranks.
        groups: in which groups they communicate.
    """
    rows = _of_ranks(traced, ranks, groups)
    rows = rows.join(_peers(rows, groups, ranks), on=["rank", "row"], how="left", maintain_order="left")
    return _numbered(_with_reasons(rows.with_columns(_key().alias("key")), groups))


def _key() -> pl.Expr:
    """A number that what is done together has on all ranks; null: it is done alone."""
    peers = [pl.when(_IS_PAIR).then(name).fill_null(-1).alias(name) for name in ("from_rank", "to_rank")]
    entry = pl.when(_IS_PAIR).then(-1).otherwise("entry").fill_null(-2).alias("entry")
    together = pl.struct(entry, *peers, "number").rank("dense").cast(pl.Int64)
    return pl.when(pl.col("reason").is_null()).then(together)


def _of_ranks(traced: pl.DataFrame, ranks: Sequence[PlannedRank], groups: GroupsOfRanks) -> pl.DataFrame:
    simulated = pl.DataFrame(
        [(rank.rank, rank.source, rank.is_replica) for rank in ranks],
        schema={"rank": pl.Int64, "source": pl.Int64, "is_replica": pl.Boolean},
        orient="row",
    )
    images = pl.DataFrame(
        [(rank, origin, entry) for rank, own in enumerate(groups.of_rank) for origin, entry in own.items()],
        schema={"rank": pl.Int64, "origin": pl.Int64, "entry": pl.Int64},
        orient="row",
    )
    return (
        simulated.join(traced, on="source", how="inner", maintain_order="left_right")
        .join(images, on=["rank", "origin"], how="left", maintain_order="left")
        .rename({"from_rank": "_from", "to_rank": "_to"})
    )


def _peers(rows: pl.DataFrame, groups: GroupsOfRanks, ranks: Sequence[PlannedRank]) -> pl.DataFrame:
    """`rank`, `row`, and the dense `from_rank` and `to_rank` of each send and receive.

    A replica's peer has the place in its group that the peer of its source has in the source's.
    """
    own = rows.filter(pl.col("type").is_in(PAIRED))
    dense = {rank.world_rank: rank.rank for rank in ranks}
    home = {rank.world_rank: number for number, rank in enumerate(ranks) if not rank.is_replica}
    found = []
    columns = ("rank", "row", "source", "is_replica", "origin", "entry", "type", "_from", "_to")
    for rank, row, source, is_replica, origin, entry, kind, sender, receiver in own.select(
        columns
    ).iter_rows():
        peer = receiver if kind == _SEND else sender
        if peer is not None and is_replica:
            peer = _moved(groups, (home.get(source), origin), entry, peer)
        peer = dense.get(peer)
        found.append((rank, row, rank if kind == _SEND else peer, peer if kind == _SEND else rank))
    schema = {"rank": pl.Int64, "row": pl.Int64, "from_rank": pl.Int64, "to_rank": pl.Int64}
    return pl.DataFrame(found, schema=schema, orient="row")


def _moved(groups: GroupsOfRanks, home: tuple[int | None, int], entry: int | None, peer: int) -> int | None:
    source, origin = home
    if source is None or entry is None or origin not in groups.of_rank[source]:
        return None
    there = groups.whole[groups.of_rank[source][origin]]
    own = groups.whole[entry]
    return own[there.index(peer)] if peer in there and len(own) == len(there) else None


def _with_reasons(rows: pl.DataFrame, groups: GroupsOfRanks) -> pl.DataFrame:
    sizes = {entry: len(ranks) for entry, ranks in enumerate(groups.ranks)}
    size = pl.col("entry").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    kinds = pl.col("type").n_unique().over("key")
    there = pl.col("rank").n_unique().over("key")
    twice = pl.len().over("key") > there
    lacks_peer = (
        pl.col("from_rank").is_null() | pl.col("to_rank").is_null() | (kinds != 2) | (there != 2) | twice
    )
    is_open = pl.col("reason").is_null()
    reasons = (
        (is_open & _IS_PAIR & lacks_peer, AloneReason.PEER_MISSING),
        (is_open & ~_IS_PAIR & (size == 1).fill_null(value=False), AloneReason.SINGLE_RANK),
        (is_open & ~_IS_PAIR & (size.is_null() | (there != size) | twice), AloneReason.MEMBERS_MISSING),
        (is_open & ~_IS_PAIR & (kinds != 1), AloneReason.TYPES_DIFFER),
    )
    known = pl.col("reason")
    for condition, reason in reversed(reasons):
        known = pl.when(condition).then(pl.lit(reason.value)).otherwise(known)
    return rows.with_columns(known.alias("reason"))


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """With `item`: what is done together is numbered as its first member comes, what is done alone behind."""
    together = rows.filter(pl.col("reason").is_null()).select("key").unique(maintain_order=True)
    together = together.with_row_index("item")
    own = together.height + pl.int_range(pl.len())
    joined = rows.join(together, on="key", how="left", maintain_order="left")
    item = pl.when(pl.col("reason").is_null()).then(pl.col("item").cast(pl.Int64)).otherwise(own)
    return joined.with_columns(item.alias("item")).drop("key", "_from", "_to")
