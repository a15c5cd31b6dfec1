"""A rank's dependency graph as the nodes of an `.et` file."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.exporters.chakra.merged.rank_as_lane import rank_as_lane
from tracebraid.exporters.chakra.nodes.contraction import contracted
from tracebraid.exporters.chakra.nodes.gaps import delayed
from tracebraid.exporters.chakra.nodes.network import network_of
from tracebraid.exporters.chakra.nodes.node_columns import node_columns
from tracebraid.exporters.chakra.reduction import reduced
from tracebraid.exporters.chakra.schema_version import SCHEMA_VERSION
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import Detail
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["rank_nodes"]


def rank_nodes(
    graph: RankGraph,
    communication: pl.DataFrame,
    detail: Detail = Detail.FULL,
    begins_ns: int | None = None,
) -> ChakraRank:
    """The nodes of a rank, and what each waits for.

    A node starts when all that it waits for has ended; then each work starts and ends when it did in the trace: what
    is not explained is a delay in front of it. Communication takes as long as its transfer.

    Args:
        graph: of one rank.
        communication: `CHAKRA_COMMUNICATION` of the same rank; events that it does not name are computation.
        detail: how much of the host is told apart, and of devices.
        begins_ns: when the simulation begins, on the rank's own clock, if that is before its first moment: then its
            first nodes are delays.

    Raises:
        MissingLibraryError: numba is not installed.
    """
    if detail is Detail.MERGED:
        return rank_as_lane(graph, communication, begins_ns)
    network = network_of(graph, communication, detail)
    on_device = graph.activities.get_column("stream").is_not_null().to_numpy()[network.activity]
    belongs = (network.activity, network.lane, on_device)
    late = delayed(network.times_ns, network.tasks, network.waits, belongs, begins_ns)
    found = contracted(late.times_ns, late.tasks, late.waits)
    number = np.empty(len(found.order), dtype=np.int64)
    number[found.order] = np.arange(len(found.order))
    tasks = late.tasks[found.order]
    deps = reduced(number[found.before], number[found.waits], tasks.lane)
    spans_ns = (late.times_ns[tasks.start], late.times_ns[tasks.end])
    nodes = node_columns(graph, tasks, spans_ns, communication, detail)
    count = len(tasks)
    return ChakraRank(
        graph.rank,
        SCHEMA_VERSION,
        (),
        nodes,
        NodeDeps.of_pairs(deps.before, deps.after, np.arange(count)),
        NodeDeps.none(count),
        (*graph.findings, *_findings(found.dropped, network.unordered)),
    )


def _findings(dropped: int, unordered: int) -> list[Finding]:
    counts = {
        FindingCode.GRAPH_EDGES_CONTRADICTED: dropped,
        FindingCode.CHAKRA_UNORDERED: unordered,
    }
    return [Finding.of(code, count=count) for code, count in counts.items() if count]
