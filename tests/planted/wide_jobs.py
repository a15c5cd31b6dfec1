"""`wide_job`: what is kept of each rank of a big job, made by columns: 64 ranks x 2,000 collectives in a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tests.planted.hosts import BASE_NS, Host
from tracebraid.model.collectives import CollectiveType, MatchMethod, text_of_ranks
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.schema.links import MATCHED_COLLECTIVES, MEMBERS, RANKS

_TYPES = (CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER)
_TELLS = ("communicator", "process_group", "group_ranks", "group_size", "sequence")


@dataclass(frozen=True)
class WidePlan:
    """What a big job is like; times in ns.

    Args:
        ranks: their number.
        collectives: their number.
        hosts: ranks are spread over them in order, in equal numbers.
        groups: the ranks of each group; collectives go around them. Default: one group of all ranks.
        types: collectives go around them.
        gap: between collectives, on average.
        skew: of a rank's arrival, on average (exponential).
        transfer: on average (exponential beyond half of that).
        jitter: of a rank's end (normal, as its standard deviation).
        late_ends: of each host, by how much all ends of its ranks are later, in turn.
        lost: the share of members that were not recorded.
        without: columns of `MEMBERS` that are null, of communicator, process_group, group_ranks, group_size, sequence.
        host: whether it runs on the host by gloo; else it is NCCL's.
        seed: of the random numbers.
    """

    ranks: int = 64
    collectives: int = 2000
    hosts: tuple[Host, ...] = (Host(),)
    groups: tuple[tuple[int, ...], ...] = ()
    types: tuple[CollectiveType, ...] = _TYPES
    gap: int = 1_000_000
    skew: int = 50_000
    transfer: int = 100_000
    jitter: int = 0
    late_ends: tuple[int, ...] = ()
    lost: float = 0.0
    without: tuple[str, ...] = ()
    host: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)
class WideJob:
    """A big job and its truth; times are true, in ns since `BASE_NS`, as arrays of collectives x ranks.

    Args:
        plan: what it was made of.
        host_of: the host of each rank.
        arrival: of each rank; no meaning for those not in the group.
        end: of each rank.
        transfer: of each collective.
        recorded: whether a rank is in the group and recorded it.
        members: `MEMBERS` of all ranks on their own clocks; `collective` is the row of these arrays.
        ranks: `RANKS`.
    """

    plan: WidePlan
    host_of: Sequence[Host]
    arrival: NDArray[np.int64]
    end: NDArray[np.int64]
    transfer: NDArray[np.int64]
    recorded: NDArray[np.bool_]
    members: pl.DataFrame
    ranks: pl.DataFrame = field(default_factory=RANKS.empty)

    def parts(self) -> list[RankParts]:
        """What is kept of each rank for `link_ranks`, not matched."""
        bare = self.members.with_columns(pl.lit(None, dtype=pl.Int64).alias("collective"))
        found = dict(bare.partition_by("rank", as_dict=True))
        return [
            RankParts(row, found.get((row.item(0, "rank"),), MEMBERS.empty()))
            for row in self.ranks.iter_slices(1)
        ]

    def matched(self) -> pl.DataFrame:
        """`MATCHED_COLLECTIVES` of the members, in the order of this job's rows."""
        rows = self.members.group_by("collective").agg(
            pl.col("type", "dtype", "sequence").first(),
            pl.col("rank").sort().alias("ranks"),
            pl.lit(MatchMethod.COMMUNICATOR_SEQUENCE.value).alias("method"),
            pl.lit(1.0).alias("confidence"),
            pl.lit(value=True).alias("agrees"),
            pl.lit("world").alias("group"),
        )
        rows = rows.sort("collective").with_columns(
            pl.col("collective").alias("number"),
            pl.col("collective").map_elements(self._size, pl.Int64).alias("group_size"),
        )
        return MATCHED_COLLECTIVES.conform(rows, fill_missing=True)

    def _size(self, collective: int) -> int:
        groups = self.plan.groups
        return len(groups[collective % len(groups)]) if groups else self.plan.ranks


def wide_job(plan: WidePlan) -> WideJob:
    """Make a big job."""
    random = np.random.default_rng(plan.seed)
    shape = (plan.collectives, plan.ranks)
    host_of = [plan.hosts[rank * len(plan.hosts) // plan.ranks] for rank in range(plan.ranks)]
    groups = plan.groups or (tuple(range(plan.ranks)),)
    inside = np.zeros((len(groups), plan.ranks), dtype=np.bool_)
    for number, group in enumerate(groups):
        inside[number, list(group)] = True
    inside = inside[np.arange(plan.collectives) % len(groups)]
    transfer = (plan.transfer * (0.5 + random.exponential(0.5, plan.collectives))).astype(np.int64)
    start = 1_000_000 + np.cumsum(random.exponential(plan.gap, plan.collectives)).astype(np.int64)
    arrival = np.where(inside, random.exponential(plan.skew, shape).astype(np.int64), 0)
    # Ranks do one collective after the other: one begins when the last has ended.
    start += np.concatenate([[0], np.cumsum(arrival.max(axis=1) + transfer)[:-1]])
    arrival += start[:, None]
    last = np.where(inside, arrival, 0).max(axis=1)
    late = dict(zip(plan.hosts, plan.late_ends, strict=False))
    end = (last + transfer)[:, None] + np.array([late.get(host, 0) for host in host_of])
    end = end + np.round(random.normal(0, 1, shape) * plan.jitter).astype(np.int64)
    end = np.maximum(end, last[:, None])
    recorded = inside & (random.random(shape) >= plan.lost)
    members = _members(plan, host_of, (arrival, end), recorded)
    ranks = pl.DataFrame(
        {
            "rank": range(plan.ranks),
            "host": [host.name for host in host_of],
            "process_id": [4000 + rank for rank in range(plan.ranks)],
            "world_size": [plan.ranks] * plan.ranks,
        }
    )
    spans = members.group_by("rank").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    facts = RANKS.conform(ranks.join(spans, on="rank", how="left", maintain_order="left"), fill_missing=True)
    return WideJob(plan, host_of, arrival, end, transfer, recorded, members, facts)


def _members(
    plan: WidePlan,
    host_of: Sequence[Host],
    times: tuple[NDArray[np.int64], NDArray[np.int64]],
    recorded: NDArray[np.bool_],
) -> pl.DataFrame:
    groups = plan.groups or (tuple(range(plan.ranks)),)
    texts = [text_of_ranks(ranks) for ranks in groups]
    number = np.arange(plan.collectives)
    types = np.array([kind.value for kind in plan.types])[number % len(plan.types)]
    frames = []
    for rank, host in enumerate(host_of):
        rows = np.flatnonzero(recorded[:, rank])
        group = rows % len(groups)
        start, end = (_said(time[rows, rank], host) for time in times)
        frames.append(
            pl.DataFrame(
                {
                    "rank": np.full(len(rows), rank),
                    "event_id": rows,
                    "collective": rows,
                    "type": types[rows],
                    "name": types[rows],
                    "communicator": (1000 + group).astype(str),
                    "process_group": group.astype(str),
                    "group_ranks": pl.Series([texts[g] for g in group], dtype=pl.Categorical),
                    "group_size": pl.Series([len(groups[g]) for g in group], dtype=pl.Int64),
                    "sequence": rows // len(groups),
                    "in_bytes": 4096 * (1 + rows % 7),
                    "out_bytes": 4096 * (1 + rows % 7),
                    "issued_ns": start - 8_000,
                    "start_ns": start,
                    "end_ns": end,
                }
            )
        )
    found = pl.concat(frames).with_columns(
        pl.lit("gloo" if plan.host else "NCCL").alias("library"),
        pl.lit("cpu" if plan.host else "cuda:0").alias("device"),
        pl.lit("20").alias("stream"),
        pl.col("name").alias("kernel"),
        pl.lit("Float").alias("dtype"),
        *(pl.lit(None).alias(column) for column in _TELLS if column in plan.without),
    )
    return MEMBERS.conform(found, fill_missing=True)


def _said(true_ns: NDArray[np.int64], host: Host) -> NDArray[np.int64]:
    drifted = true_ns + np.round(true_ns * (host.drift_ppm / 1e6)).astype(np.int64)
    return drifted + BASE_NS + host.ahead_ns
