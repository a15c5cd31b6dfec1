"""Faster communication: alpha and beta of each group and type, from the trace, and what they become."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.communication_latency import communication_latency
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.work import is_work, whole_ns, with_work

__all__ = ["Costs", "communication_costs", "of_group_size", "with_bandwidth", "with_latency"]

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]

_KEY = ["group", "type"]
_T = CollectiveType
_RING = (_T.ALL_REDUCE, _T.ALL_GATHER, _T.REDUCE_SCATTER, _T.ALL_TO_ALL)
"""Types of which each rank moves (n - 1) / n of the size, once or twice, in a number of turns that grows with n - 1."""
_PIPELINED = (_T.BROADCAST, _T.REDUCE)
"""Types of which each rank moves the whole size, after n - 1 turns of latency."""


@dataclass(frozen=True, eq=False)
class Costs:
    """What the transfers of communication are made of.

    Args:
        edges: the edges that hold them.
        alpha_ns: of each, what does not depend on the size: fitted, at most the edge's work.
        fitted_ns: the same as it was fitted, which a transfer may fall below.
        known: whether alpha is known: a fit of its group and type; else it is taken to be 0.
        size: ranks of the group; 0: unknown.
        type: `CollectiveType` of each.
    """

    edges: _Ints
    alpha_ns: NDArray[np.float64]
    fitted_ns: NDArray[np.float64]
    known: _Bools
    size: _Ints
    type: pl.Series


def communication_costs(graph: DependencyGraph, chosen: _Bools) -> Costs:
    """The transfers of the chosen members.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.

    Raises:
        ArgumentError: none of them communicates.
    """
    kinds = graph.activities.get_column("kind").cast(pl.String)
    member = chosen & (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    edges = np.flatnonzero(is_work(graph) & member[graph.edges.activity] & (graph.edges.work_ns > 0))
    if not len(edges):
        raise ArgumentError("nothing that was selected communicates; add kind=communication")
    activity = pl.Series(graph.edges.activity[edges])
    rows = graph.activities.select(pl.col("rank", "event_id", "group")).with_columns(
        pl.col("group").cast(pl.String)
    )
    members = graph.ranks.members.select("rank", "event_id", "type", "group_size")
    rows = rows[activity].join(
        members.unique(["rank", "event_id"]), on=["rank", "event_id"], how="left", maintain_order="left"
    )
    rows = rows.join(communication_latency(graph.ranks), on=_KEY, how="left", maintain_order="left")
    alpha = rows.get_column("alpha_ns")
    fitted = alpha.fill_null(0.0).to_numpy()
    return Costs(
        edges,
        np.minimum(fitted, graph.edges.work_ns[edges]),
        fitted,
        alpha.is_not_null().to_numpy(),
        rows.get_column("group_size").fill_null(0).to_numpy(),
        rows.get_column("type"),
    )


def with_bandwidth(graph: DependencyGraph, chosen: _Bools, factor: float) -> DependencyGraph:
    """Transfers whose bandwidth is `factor` times as high: alpha + (time - alpha) / factor.

    Where no alpha is fitted, all of the time is taken to be that of the size.
    """
    costs = communication_costs(graph, chosen)
    return _recosted(graph, costs, np.ones(len(costs.edges)), np.full(len(costs.edges), 1.0 / factor))


def with_latency(graph: DependencyGraph, chosen: _Bools, factor: float) -> DependencyGraph:
    """Transfers whose latency is `factor` times as long: alpha * factor + (time - alpha).

    Raises:
        ArgumentError: alpha is known of none of them.
    """
    costs = communication_costs(graph, chosen)
    if not costs.known.any():
        raise ArgumentError(
            "the latency of what was selected is not known: a fit needs collectives of one group and type in "
            "several sizes, see tracebraid analyze collective-fit"
        )
    return _recosted(graph, costs, np.full(len(costs.edges), factor), np.ones(len(costs.edges)))


def of_group_size(graph: DependencyGraph, chosen: _Bools, ranks: float) -> DependencyGraph:
    """Collectives of groups with so many ranks, the added as fast as those that are there.

    By the ring formulas alpha grows with n - 1, and the time of the size with (n - 1) / n, of broadcasts and reduces
    not at all. Sizes stay: replicas of data parallel training. Sends and receives stay as they are.

    Raises:
        ArgumentError: the size of none of the groups is known, or nothing selected is a collective.
    """
    costs = communication_costs(graph, chosen)
    ring, pipelined = (
        costs.type.is_in([kind.value for kind in kinds]).fill_null(value=False).to_numpy()
        for kinds in (_RING, _PIPELINED)
    )
    applies = (costs.size > 1) & (ring | pipelined)
    if not applies.any():
        raise ArgumentError(
            "nothing that was selected is a collective of a group whose number of ranks is known"
        )
    size = np.maximum(costs.size, 2)
    of_alpha = np.where(applies, (ranks - 1) / (size - 1), 1.0)
    of_size = np.where(applies & ring, ((ranks - 1) / ranks) / ((size - 1) / size), 1.0)
    return _recosted(graph, costs, of_alpha, of_size)


def _recosted(
    graph: DependencyGraph, costs: Costs, of_alpha: NDArray[np.float64], of_size: NDArray[np.float64]
) -> DependencyGraph:
    work = graph.edges.work_ns.copy()
    found = costs.alpha_ns * of_alpha + (work[costs.edges] - costs.alpha_ns) * of_size
    work[costs.edges] = whole_ns(found)
    return with_work(graph, work)
