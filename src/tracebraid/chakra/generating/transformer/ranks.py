"""The ranks of a transformer job: each is its stage, with the groups and peers of the rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from tracebraid.chakra.generating.transformer.layout import (
    Role,
    coordinates_of,
    groups_of,
    members_of,
    peer_of,
)
from tracebraid.chakra.generating.transformer.stage import stage_program
from tracebraid.model.chakra.chakra_rank import NodeDeps
from tracebraid.model.chakra.workloads import Parallelism, TransformerJob

__all__ = ["numbered_groups", "transformer_ranks"]


def numbered_groups(parallelism: Parallelism) -> dict[tuple[Role, int], tuple[str, tuple[int, ...]]]:
    """Of each role and first member the name of the group and its ranks; a group of all ranks needs no name."""
    found: dict[tuple[Role, int], tuple[str, tuple[int, ...]]] = {}
    for role, members in groups_of(parallelism):
        if len(members) < parallelism.ranks:
            found[role, members[0]] = (str(len(found) + 1), members)
    return found


def transformer_ranks(job: TransformerJob) -> Iterator[tuple[pl.DataFrame, NodeDeps]]:
    """Nodes and dependencies of each rank; the ranks of a stage are made from the same program."""
    groups = numbered_groups(job.parallelism)
    stage, nodes, deps = -1, pl.DataFrame(), NodeDeps.none(0)
    for rank in range(job.ranks):
        at = coordinates_of(job.parallelism, rank)
        if at.pipeline != stage:
            stage = at.pipeline
            program = stage_program(job, stage)
            nodes, deps = program.nodes(), program.data_deps()
        names = {
            role: groups[role, first][0]
            for role in Role
            if (role, first := members_of(job.parallelism, role, rank)[0]) in groups
        }
        yield _of_rank(nodes, names, peer_of(job.parallelism, rank, 0), peer_of(job.parallelism, 0, 1)), deps


def _of_rank(nodes: pl.DataFrame, names: Mapping[Role, str], rank: int, ranks_of_stage: int) -> pl.DataFrame:
    role = pl.col("pg_name")
    named = {item.value: names.get(item) for item in Role}
    purpose = pl.format('{{"parallelism":"{}"}}', role.fill_null("pipeline"))
    communicates = pl.col("comm_size").is_not_null()
    return nodes.with_columns(
        attributes=pl.when(communicates).then(purpose).cast(pl.Categorical),
        pg_name=role.replace_strict(named, default=None, return_dtype=pl.String),
        comm_src=rank + pl.col("comm_src") * ranks_of_stage,
        comm_dst=rank + pl.col("comm_dst") * ranks_of_stage,
    )
