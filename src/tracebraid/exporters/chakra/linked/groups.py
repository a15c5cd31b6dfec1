"""The process groups of several ranks that were converted from ET+, numbered as simulators have them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from tracebraid.exporters.chakra.linked.convert import ConvertedRank
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.chakra.codes import NodeType

__all__ = [
    "ConvertedJob",
    "RankCommunication",
    "communication_of",
    "in_job",
    "job_of",
    "of_known_size",
    "with_group_number",
]

_COLLECTIVE = NodeType.COMM_COLL_NODE.name
_COMMUNICATION = (_COLLECTIVE, NodeType.COMM_SEND_NODE.name, NodeType.COMM_RECV_NODE.name)
_NUMBERS = 2**31
"""Simulators read names of groups as int32."""


@dataclass(frozen=True, eq=False)
class RankCommunication:
    """What a job has to know of a rank.

    Args:
        rank: its dense number.
        world_rank: its number in the trace.
        collectives: `name` of the group, `position` in it, `comm_type` and `comm_size` of each collective.
        groups: ranks of each group, as the trace has them; none: all.
    """

    rank: int
    world_rank: int
    collectives: pl.DataFrame
    groups: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class ConvertedJob:
    """The groups of a job, and how large its collectives are.

    Args:
        numbers: of each rank the number of each group, as text; None: the group of all ranks, without a number.
        members: dense ranks of each number.
        sizes: the most bytes that a member has, by `number`, `position` and `comm_type`.
        dense: the dense number of each rank of the trace.
    """

    numbers: Mapping[int, Mapping[str, str | None]]
    members: Mapping[str, tuple[int, ...]]
    sizes: pl.DataFrame
    dense: Mapping[int, int]


def communication_of(
    converted: ConvertedRank, world_rank: int, groups: Mapping[str, tuple[int, ...]]
) -> RankCommunication:
    """What a job has to know of a rank that was converted."""
    rank = converted.rank
    return RankCommunication(rank.rank, world_rank, _collectives(rank), groups)


def _collectives(rank: ChakraRank) -> pl.DataFrame:
    return (
        rank.nodes.filter(pl.col("type").cast(pl.String) == _COLLECTIVE)
        .select(
            "node_id",
            "comm_size",
            name=pl.col("pg_name").fill_null(""),
            comm_type=pl.col("comm_type").cast(pl.String),
        )
        .with_columns(position=pl.int_range(pl.len()).over("name"))
    )


def job_of(ranks: Sequence[RankCommunication]) -> ConvertedJob:
    """The groups of all ranks, numbered by their members and names, and the sizes of their collectives."""
    dense = {own.world_rank: own.rank for own in ranks}
    everyone = tuple(sorted(dense.values()))
    keys: dict[int, dict[str, tuple[tuple[int, ...], str]]] = {}
    for own in ranks:
        names = own.collectives.get_column("name").unique(maintain_order=True).to_list()
        keys[own.rank] = {name: (_members(own, name, dense, everyone), name) for name in names}
    found = sorted({key for own in keys.values() for key in own.values()})
    if [members for members, _ in found] in ([], [everyone]):
        # A single group of all ranks needs no number.
        numbered: dict[tuple[tuple[int, ...], str], str | None] = dict.fromkeys(found)
    else:
        numbered = {key: str(number) for number, key in enumerate(found, start=1)}
    numbers = {rank: {name: numbered[key] for name, key in own.items()} for rank, own in keys.items()}
    members = {number: key[0] for key, number in numbered.items() if number is not None}
    return ConvertedJob(numbers, members, _sizes(ranks, numbers), dense)


def _members(
    own: RankCommunication, name: str, dense: Mapping[int, int], everyone: tuple[int, ...]
) -> tuple[int, ...]:
    named = own.groups.get(name, ())
    return tuple(sorted(dense[rank] for rank in named if rank in dense)) if named else everyone


def _sizes(
    ranks: Sequence[RankCommunication], numbers: Mapping[int, Mapping[str, str | None]]
) -> pl.DataFrame:
    parts = [_numbered(own.collectives, numbers[own.rank]) for own in ranks]
    keys = ("number", "position", "comm_type")
    return pl.concat(parts).group_by(keys).agg(most=pl.col("comm_size").max())


def _numbered(collectives: pl.DataFrame, numbers: Mapping[str, str | None]) -> pl.DataFrame:
    texts = {name: number or "" for name, number in numbers.items()}
    number = pl.col("name").replace_strict(texts, default=None, return_dtype=pl.String)
    return collectives.with_columns(number=number)


def in_job(converted: ConvertedRank, job: ConvertedJob) -> ConvertedRank:
    """A rank with the numbers of the job's groups and ranks; all members of a collective have the same size.

    A send or receive whose peer is not in the job becomes compute of the measured time.
    """
    rank = converted.rank
    own = _numbered(_collectives(rank), job.numbers[rank.rank])
    own = own.join(job.sizes, on=["number", "position", "comm_type"], how="left").select(
        "node_id", "most", number=pl.when(pl.col("number") != "").then("number")
    )
    peers = {
        column: pl.col(column).replace_strict(dict(job.dense), default=None, return_dtype=pl.Int64)
        for column in ("comm_src", "comm_dst")
    }
    pair = pl.col("type").cast(pl.String).is_in([NodeType.COMM_SEND_NODE.name, NodeType.COMM_RECV_NODE.name])
    nodes = rank.nodes.join(own, on="node_id", how="left", maintain_order="left").with_columns(**peers)
    absent = pair & pl.col("comm_src").is_null() & pl.col("comm_dst").is_null()
    made = nodes.with_columns(
        pg_name="number", comm_size=pl.when(~absent).then(pl.coalesce("most", "comm_size"))
    ).select(rank.nodes.columns)
    return of_known_size(replace(converted, rank=replace(rank, nodes=made)))


def of_known_size(converted: ConvertedRank) -> ConvertedRank:
    """A rank whose communication of unknown size is compute of the measured time."""
    nodes, counts = converted.rank.nodes, converted.counts
    kind = pl.col("type").cast(pl.String)
    unknown = kind.is_in(_COMMUNICATION) & pl.col("comm_size").is_null()
    lost = int(nodes.select(unknown.sum()).item())
    if not lost:
        return converted
    only_known = ("comm_type", "comm_src", "comm_dst", "comm_tag", "pg_name")
    made = nodes.with_columns(
        pl.when(unknown)
        .then(pl.lit(NodeType.COMP_NODE.name))
        .otherwise(kind)
        .cast(pl.Categorical)
        .alias("type"),
        *(pl.when(~unknown).then(name).alias(name) for name in only_known),
    )
    counts = replace(
        counts,
        communications=counts.communications - lost,
        communications_as_compute=counts.communications_as_compute + lost,
    )
    return ConvertedRank(replace(converted.rank, nodes=made), counts)


def with_group_number(rank: ChakraRank) -> ChakraRank:
    """A rank that is converted alone: names of groups that are no numbers become such, the same on every rank."""
    names = rank.nodes.get_column("pg_name").drop_nulls().unique(maintain_order=True).to_list()
    numbers = {
        name: name if _is_number(name) else str(1 + zlib.crc32(name.encode()) % (_NUMBERS - 1))
        for name in names
    }
    number = pl.col("pg_name").replace_strict(numbers, default=None, return_dtype=pl.String)
    return replace(rank, nodes=rank.nodes.with_columns(pg_name=number)) if names else rank


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 10 and int(name) < _NUMBERS
