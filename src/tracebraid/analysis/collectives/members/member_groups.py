"""Which process group is a member's, of which ranks, and from which rank to which does it communicate?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.collectives.group_ranks import text_of_ranks
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["with_groups"]

_MOST_RANKS = 2**20
"""More ranks than any job has: a size beyond is damaged."""

_SENT = r"send (?P<own>\d+)->(?P<other>\d+)"
_RECEIVED = r"recv (?P<own>\d+)<-(?P<other>\d+)"

_KEY = ["process_group", "group_size", "global_rank_start", "global_rank_stride", "pg_ranks"]


def with_groups(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """With group_ranks, group_size, source and destination.

    The ranks of a group are those of the collective's arguments, else of the file's process groups, else counted from
    its first rank by its stride, else all where it is as large as the job. `Src Rank` and `Dst Rank` are global ranks;
    in the name of a range (`nccl:recv 1<-0`) both numbers count in the group, and become global ranks; so does the peer
    that an op asked for. Where the group of such an op is unknown, that is the rank which those groups of this rank
    have there in which it can have that peer, if they agree.

    Args:
        found: name, process_group, type, group_size, pg_ranks, global_rank_start, global_rank_stride, src_rank,
            dst_rank, asked_peer.
        linked: the rank.
    """
    timeline = linked.timeline
    headers = {
        name: (ranks, size)
        for name, ranks, size in timeline.process_groups.select("pg_name", "ranks", "group_size").iter_rows()
        if name is not None
    }
    distinct = found.select(_KEY).unique(maintain_order=True)
    groups = [_group(row, headers, timeline.world_size) for row in distinct.iter_rows()]
    schema: dict[str, pl.DataType] = {"group_ranks": pl.List(pl.Int64), "known_size": pl.Int64()}
    listed = pl.DataFrame(groups, schema=schema, orient="row")
    texts = [text_of_ranks(ranks) for ranks, _ in groups]
    known = distinct.hstack(listed).with_columns(pl.Series("_text", texts, dtype=pl.Categorical))
    joined = found.join(known, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    me, kind = pl.lit(linked.rank, dtype=pl.Int64), pl.col("type")
    is_send, is_receive = kind == CollectiveType.SEND.value, kind == CollectiveType.RECEIVE.value
    asked = _asked(joined, [ranks for ranks, _ in headers.values() if ranks], linked)
    source, destination = (
        pl.coalesce(
            _peer(argument, pattern, linked.rank), pl.when(pl.col("type") == kind_of.value).then(asked)
        )
        for argument, pattern, kind_of in (
            ("src_rank", _RECEIVED, CollectiveType.RECEIVE),
            ("dst_rank", _SENT, CollectiveType.SEND),
        )
    )
    return joined.with_columns(
        pl.col("known_size").alias("group_size"),
        pl.when(is_send).then(me).otherwise(source).alias("source"),
        pl.when(is_receive).then(me).otherwise(destination).alias("destination"),
        pl.col("_text").alias("group_ranks"),
    ).drop("_text")


def _peer(argument: str, pattern: str, rank: int) -> pl.Expr:
    """The global rank of a peer: the argument, else the number in the range's name, which counts in the group."""
    numbers = pl.col("name").str.extract_groups(pattern)
    own, other = (numbers.struct.field(name).cast(pl.Int64, strict=False) for name in ("own", "other"))
    ranks = pl.col("group_ranks")
    is_own = ranks.list.get(own.fill_null(0), null_on_oob=True) == rank
    named = pl.when(is_own & other.is_not_null()).then(ranks.list.get(other.fill_null(0), null_on_oob=True))
    return pl.coalesce(pl.when(pl.col(argument) >= 0).then(argument), named)


def _asked(found: pl.DataFrame, listed: list[list[int]], linked: LinkedTrace) -> pl.Series:
    """The global rank of the peer that an op asked for; null: unknown."""
    world = linked.timeline.world_size
    groups = listed or ([list(range(world))] if world is not None and world <= _MOST_RANKS else [])
    peers: dict[int, int] = {}
    for number in found.get_column("asked_peer").drop_nulls().unique().to_list():
        possible = {ranks[number] for ranks in groups if linked.rank in ranks and number < len(ranks)}
        possible -= {linked.rank}
        if len(possible) == 1:
            peers[number] = possible.pop()
    of_any = pl.col("asked_peer").replace_strict(peers, default=None, return_dtype=pl.Int64)
    of_group = pl.col("group_ranks").list.get(pl.col("asked_peer").fill_null(0), null_on_oob=True)
    own = pl.when(pl.col("asked_peer").is_not_null()).then(of_group)
    peer = pl.coalesce(own, of_any)
    return found.select(pl.when(peer != linked.rank).then(peer).alias("asked")).to_series()


def _group(
    row: tuple[str | None, int | None, int | None, int | None, list[int] | None],
    headers: dict[str, tuple[list[int] | None, int | None]],
    world: int | None,
) -> tuple[list[int] | None, int | None]:
    """The ranks and the size of a group."""
    name, size, start, stride, given = row
    listed, header_size = headers.get(name, (None, None)) if name is not None else (None, None)
    size = size if size is not None and 0 < size <= _MOST_RANKS else header_size
    if given and size in (None, len(given)):
        return given, len(given)
    if listed and size in (None, len(listed)):
        return listed, len(listed)
    if (
        size is not None
        and start is not None
        and stride is not None
        and 0 <= start <= _MOST_RANKS >= stride > 0
    ):
        return [start + stride * number for number in range(size)], size
    if size is not None and size == world:
        return list(range(size)), size
    return None, size
