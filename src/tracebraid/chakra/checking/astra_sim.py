"""What Chakra's format allows and ASTRA-sim does not run, or not well."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra.checking.lint_located import Located
from tracebraid.chakra.dependencies import RankDependencies, depths
from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.model.chakra.lint import LintFinding
from tracebraid.model.chakra.lint_code import LintCode

__all__ = ["MEETS_NOBODY", "astra_faults", "ready_faults"]

_RUN = [
    name.name
    for name in (
        CollectiveCommType.ALL_REDUCE,
        CollectiveCommType.ALL_GATHER,
        CollectiveCommType.ALL_TO_ALL,
        CollectiveCommType.REDUCE_SCATTER,
        CollectiveCommType.BROADCAST,
    )
]
"""Collectives that ASTRA-sim runs; it throws at the others."""
MEETS_NOBODY = frozenset({CollectiveCommType.BROADCAST.name})
"""Collectives that ASTRA-sim only gives their measured time, without a message to the other ranks."""
_READY_LIMIT = 1000
"""Nodes that can run at once. ASTRA-sim goes through all of them at each event: with so many, a trace of 100,000
nodes takes some 10^8 look-ups."""


def astra_faults(nodes: pl.DataFrame, communication: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Of the nodes of a rank.

    Args:
        nodes: all of them, with `type` as text.
        communication: those that communicate, as `communication_of` returns them.
        located: of the rank.
    """
    known = pl.col("comm_type").is_in([name.name for name in CollectiveCommType])
    foreign = known & ~pl.col("comm_type").is_in(_RUN)
    is_pair = pl.col("type") != NodeType.COMM_COLL_NODE.name
    metadata = pl.col("type") == NodeType.METADATA_NODE.name
    host = (pl.col("type") == NodeType.COMP_NODE.name) & pl.col("is_cpu_op").fill_null(False)
    return [
        *located.where_values(communication, foreign, LintCode.ASTRA_COLLECTIVE, "type", "comm_type"),
        *located.where(communication, pl.col("comm_size") == 0, LintCode.ASTRA_SIZE_ZERO),
        *located.where(communication, is_pair & pl.col("comm_tag").is_null(), LintCode.ASTRA_TAG_MISSING),
        *located.where_values(nodes, metadata, LintCode.ASTRA_METADATA, "type", "type"),
        *located.where(nodes, host, LintCode.ASTRA_HOST_WORK),
    ]


def ready_faults(
    dependencies: RankDependencies, order: NDArray[np.int64], located: Located
) -> list[LintFinding]:
    """Whether so many nodes can run at once that ASTRA-sim becomes slow."""
    depth = depths(dependencies.first, dependencies.before, order)
    widest = int(np.bincount(depth[order]).max()) if len(order) else 0
    return [located.finding(LintCode.ASTRA_MANY_READY, [], nodes=widest)] if widest > _READY_LIMIT else []
