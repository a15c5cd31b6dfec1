"""A rank's dependency graph as the nodes of an `.et` file."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.exporters.chakra.contraction import contracted
from tracebraid.exporters.chakra.gaps import delayed
from tracebraid.exporters.chakra.network import network_of
from tracebraid.exporters.chakra.node_columns import node_columns
from tracebraid.exporters.chakra.schema_version import SCHEMA_VERSION
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import Detail
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["rank_nodes"]


def rank_nodes(graph: RankGraph, communication: pl.DataFrame, detail: Detail = Detail.FULL) -> ChakraRank:
    """The nodes of a rank, and what each waits for.

    A node starts when all that it waits for has ended; then each work starts and ends when it did in the trace: what
    is not explained is a delay in front of it. Communication takes as long as its transfer.

    Args:
        graph: of one rank.
        communication: `CHAKRA_COMMUNICATION` of the same rank; events that it does not name are computation.
        detail: `full` or `device`.

    Raises:
        MissingLibraryError: numba is not installed.
    """
    network = network_of(graph, communication, detail)
    on_device = graph.activities.get_column("stream").is_not_null().to_numpy()[network.activity]
    late = delayed(
        network.times_ns, network.pieces, network.waits, (network.activity, network.lane, on_device)
    )
    found = contracted(late.times_ns, late.pieces, late.waits)
    number = np.empty(len(found.order), dtype=np.int64)
    number[found.order] = np.arange(len(found.order))
    pieces = late.pieces[found.order]
    spans_ns = (late.times_ns[pieces.start], late.times_ns[pieces.end])
    nodes = node_columns(graph, pieces, spans_ns, communication, detail)
    deps = NodeDeps.of_pairs(number[found.before], number[found.waits], np.arange(len(pieces)))
    return ChakraRank(graph.rank, SCHEMA_VERSION, (), nodes, deps, NodeDeps.none(len(pieces)), graph.findings)
