"""Which activities are the same operation, and how long each would take were all of the same equally long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["Operations", "ideal_work", "is_own_work"]

_Ints = NDArray[np.int64]

_OWN_WORK = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)


@dataclass(frozen=True, eq=False)
class Operations:
    """What the activities of a graph are, each of these an entry for each activity.

    Args:
        operation: the operation, a number from 0; activities of one number are the same, on several ranks or in
            several steps; -1: of none, its work stays.
        communicates: whether it is communication, whose ideal is the median of the same; else it is the mean.
        groups: labels of activities, by the name of what they are labelled by, such as `rank`; null: without.
        workers: the label of each activity's worker; null: of none.
        scored_by: names in `groups`: a worker's score is the least of the slowdowns of its labels.
    """

    operation: _Ints
    communicates: NDArray[np.bool_]
    groups: Mapping[str, pl.Series]
    workers: pl.Series
    scored_by: tuple[str, ...]


def is_own_work(graph: DependencyGraph) -> NDArray[np.bool_]:
    """Whether the work of each edge is that of its activity, and no latency."""
    return np.isin(graph.edges.kind, np.array(_OWN_WORK, dtype=np.uint8))


def ideal_work(graph: DependencyGraph, operations: Operations) -> _Ints:
    """The work of each edge, in ns, were the same operations equally long: their mean, of communication the median.

    An activity's work lies on one edge or on several; each gets its share.

    Args:
        graph: the graph.
        operations: which activities are the same.
    """
    edges = np.flatnonzero(is_own_work(graph) & (operations.operation[graph.edges.activity] >= 0))
    activity, work = graph.edges.activity[edges], graph.edges.work_ns[edges]
    own = np.bincount(activity, work, minlength=graph.activities.height).astype(np.float64)
    ideal = _ideal(own, np.unique(activity), operations)
    # Of an activity without work that should have some, the first edge gets it.
    empty = own[activity] == 0
    first = np.zeros(len(edges), dtype=np.bool_)
    first[np.unique(activity, return_index=True)[1]] = True
    share = np.where(empty, first, work / np.where(empty, 1, own[activity]))
    found: _Ints = graph.edges.work_ns.copy()
    found[edges] = np.rint(share * ideal[activity]).astype(np.int64)
    return found


def _ideal(own: NDArray[np.float64], present: _Ints, operations: Operations) -> NDArray[np.float64]:
    """The ideal work of each activity that is present, which others keep."""
    rows = pl.DataFrame(
        {
            "operation": operations.operation[present],
            "communicates": operations.communicates[present],
            "own": own[present],
        }
    )
    equal = rows.select(
        pl.when("communicates")
        .then(pl.col("own").median().over("operation"))
        .otherwise(pl.col("own").mean().over("operation"))
    )
    found: NDArray[np.float64] = own.copy()
    found[present] = equal.to_series().to_numpy()
    return found
