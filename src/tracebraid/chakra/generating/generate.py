"""Synthetic jobs, rank by rank."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.chakra.generating.chain import chain_program
from tracebraid.chakra.generating.messages import messages_program
from tracebraid.chakra.generating.transformer.job_check import check_transformer
from tracebraid.chakra.generating.transformer.ranks import numbered_groups, transformer_ranks
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.workloads import ChainJob, TransformerJob, Workload
from tracebraid.version import __version__

__all__ = ["comm_groups", "generated_ranks"]

_SCHEMA = "0.0.4"
"""The version that Chakra's converter writes into its files."""


def generated_ranks(workload: Workload) -> Iterator[ChakraRank]:
    """The ranks of a job in order, each made when it is asked for.

    Args:
        workload: what the job does.

    Raises:
        ArgumentError: it makes no sense.
    """
    for rank, (nodes, deps) in enumerate(_nodes(workload)):
        attributes = (("generator", f"tracebraid {__version__}"), ("workload", str(workload)))
        no_ctrl = NodeDeps.none(nodes.height)
        yield ChakraRank(rank, _SCHEMA, attributes, nodes, deps, no_ctrl)


def comm_groups(workload: Workload) -> dict[str, list[int]]:
    """The process groups of a job by their names, as simulators take them.

    Raises:
        ArgumentError: the job makes no sense.
    """
    if not isinstance(workload, TransformerJob):
        return {}
    check_transformer(workload)
    return {name: list(members) for name, members in numbered_groups(workload.parallelism).values()}


def _nodes(workload: Workload) -> Iterator[tuple[pl.DataFrame, NodeDeps]]:
    if isinstance(workload, TransformerJob):
        check_transformer(workload)
        yield from transformer_ranks(workload)
    elif isinstance(workload, ChainJob):
        program = chain_program(workload)
        nodes, deps = program.nodes(), program.data_deps()
        for _ in range(workload.ranks):
            yield nodes, deps
    else:
        for rank in range(workload.ranks):
            program = messages_program(workload, rank)
            yield program.nodes(), program.data_deps()
