"""Synthetic jobs for tests, and an oracle of their own for who waits for whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter

import polars as pl

from tracebraid.chakra import (
    Accelerator,
    ChainJob,
    ChakraRank,
    MessageJob,
    MessagePattern,
    Parallelism,
    TrainingSteps,
    Transformer,
    TransformerJob,
    links_of_text,
)
from tracebraid.chakra.generating.generate import comm_groups, generated_ranks
from tracebraid.chakra.generating.workloads import Workload

DEVICE = Accelerator(flops_per_s=1e14, bytes_per_s=1e12)
GOLDEN = "COMP 100us > ALL_REDUCE 1MiB > COMP 50us"


def transformer(
    degrees: Parallelism, training: TrainingSteps | None = None, experts: int = 0
) -> TransformerJob:
    model = Transformer(layers=8, hidden=512, heads=8, vocab=1024, experts=experts)
    return TransformerJob(model, training or TrainingSteps(sequence=128, micro_batches=4), DEVICE, degrees)


def small_jobs() -> dict[str, Workload]:
    """Jobs of every kind, by a name."""
    twice = TrainingSteps(sequence=128, micro_batches=3, steps=2, recompute=True)
    jobs: dict[str, Workload] = {
        "golden": ChainJob(4, links_of_text(GOLDEN)),
        **{
            f"{kind.lower()}_{ranks}": ChainJob(ranks, links_of_text(f"{kind} 1MiB"))
            for kind in ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")
            for ranks in (4,)
        },
        **{
            f"{pattern.value}_{ranks}": MessageJob(pattern, ranks, 2**20, repeats=2)
            for pattern in MessagePattern
            for ranks in (5, 8)
        },
        "data_4": transformer(Parallelism(data=4)),
        "fully_sharded_4": transformer(Parallelism(data=4, fully_sharded=True)),
        "tensor_4": transformer(Parallelism(tensor=4)),
        "pipeline_4": transformer(Parallelism(pipeline=4)),
        "expert_4": transformer(Parallelism(expert=4), experts=8),
        "all_16": transformer(Parallelism(2, 2, 2, 2), twice, experts=4),
        "all_sharded_16": transformer(Parallelism(2, 2, 2, 2, fully_sharded=True), twice, experts=4),
        "three_64": transformer(Parallelism(4, 4, 4)),
    }
    return jobs


class Waits:
    """All ranks of a job as one graph: members of a collective are one node, and so are a send and its receive.

    A simulator that does the communication of each rank one after the other, in any order that the files allow, can
    hang only if this graph has a cycle.
    """

    def __init__(self, ranks: Sequence[ChakraRank], groups: Mapping[str, Sequence[int]]) -> None:
        everyone = list(range(len(ranks)))
        self.collectives: dict[tuple[str, int], dict[int, tuple[str, int]]] = defaultdict(dict)
        self.members: dict[str, Sequence[int]] = {"": everyone, **groups}
        self.sends: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.receives: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.graph: TopologicalSorter[object] = TopologicalSorter()
        for rank in ranks:
            self._add(rank)

    def _add(self, rank: ChakraRank) -> None:
        issued: dict[str, int] = defaultdict(int)
        counts: dict[object, int] = defaultdict(int)
        nodes: list[object] = []
        columns = ("type", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name")
        for row, (kind, type, size, source, target, tag, group) in enumerate(
            rank.nodes.select(columns).iter_rows()
        ):
            node: object = (rank.rank, row)
            if kind == "COMM_COLL_NODE":
                key = (group or "", issued[group or ""])
                issued[group or ""] += 1
                self.collectives[key][rank.rank] = (type, size)
                node = key
            elif kind != "COMP_NODE":
                sends = kind == "COMM_SEND_NODE"
                message = (rank.rank, target, tag) if sends else (source, rank.rank, tag)
                (self.sends if sends else self.receives)[message].append(size)
                node = ("message", message, counts[kind, message])
                counts[kind, message] += 1
            nodes.append(node)
        for row, dep in zip(rank.data_deps.rows().tolist(), rank.data_deps.node_id.tolist(), strict=True):
            if nodes[row] != nodes[dep]:
                self.graph.add(nodes[row], nodes[dep])

    def check(self) -> None:
        """Fail where members of a collective differ, a message has one end, or ranks wait in a circle."""
        for (group, _), of_rank in self.collectives.items():
            assert sorted(of_rank) == sorted(self.members[group])
            assert len(set(of_rank.values())) == 1
        assert self.sends == self.receives
        assert all(size > 0 for sizes in self.sends.values() for size in sizes)
        self.graph.prepare()


def checked(workload: Workload) -> list[ChakraRank]:
    """The ranks of a job that cannot hang."""
    ranks = list(generated_ranks(workload))
    assert [rank.rank for rank in ranks] == list(range(workload.ranks))
    Waits(ranks, comm_groups(workload)).check()
    for rank in ranks:
        of_lane(rank)
    return ranks


def of_lane(rank: ChakraRank) -> None:
    """Fail where two nodes that hold the same lane of a simulator may run in either order."""
    for lane, types in enumerate((("COMP_NODE",), ("COMM_COLL_NODE", "COMM_SEND_NODE"))):
        rows = [row for row, kind in enumerate(rank.nodes.get_column("type")) if kind in types]
        last = {row: position for position, row in enumerate(rows)}
        seen = [-1] * rank.nodes.height
        for row, deps in enumerate(deps_of(rank)):
            seen[row] = max([seen[dep] for dep in deps], default=-1)
            if row in last:
                assert seen[row] == last[row] - 1, f"lane {lane}, row {row}"
                seen[row] = last[row]


def deps_of(rank: ChakraRank) -> Iterator[list[int]]:
    first, node_id = rank.data_deps.first.tolist(), rank.data_deps.node_id.tolist()
    for row in range(rank.nodes.height):
        yield node_id[first[row] : first[row + 1]]


def bytes_by(rank: ChakraRank) -> dict[tuple[str, str], int]:
    """Bytes of a rank by what they are for and what communicates them."""
    frame = rank.nodes.filter(pl.col("comm_size").is_not_null()).select(
        pl.col("attributes").cast(pl.String).str.json_path_match("$.parallelism").alias("purpose"),
        pl.coalesce(pl.col("comm_type").cast(pl.String), pl.col("type").cast(pl.String)).alias("kind"),
        "comm_size",
    )
    grouped = frame.group_by("purpose", "kind").agg(pl.col("comm_size").sum())
    return {(purpose, kind): size for purpose, kind, size in grouped.iter_rows()}
