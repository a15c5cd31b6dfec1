"""A graph whose residuals are the measured ones, usual ones, or none."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph, Edges
from tracebraid.simulation.residual_model import Samples, usual_residuals

__all__ = ["Residuals", "with_residuals"]

_Ints = NDArray[np.int64]


class Residuals(Enum):
    """With which residuals a graph is replayed."""

    MEASURED = "measured"
    """As they were: an unchanged graph gives the measured times."""
    MODELLED = "modelled"
    """As the other steps have them, see `usual_residuals`; no measured start is used."""
    MODELLED_ALONE = "modelled_alone"
    """As the moments of the same step usually have them: what a trace of this step alone would say."""
    NONE = "none"
    """All that is not explained takes no time."""


_SAMPLES = {Residuals.MODELLED: Samples.OTHERS, Residuals.MODELLED_ALONE: Samples.ITSELF}


def with_residuals(graph: DependencyGraph, residuals: Residuals) -> DependencyGraph:
    """The graph with these residuals; its `time_ns` stay the measured ones.

    With modelled or no residuals, a moment that waits for nothing gets an edge without work from the moment before
    it, in the order of the graph, of a thread of its rank: its thread or stream begins when that one has come as far
    as it had. The first moment of each rank keeps its time after the earliest of all: the ranks begin as they did. In a
    graph of some steps so does all that lies before the first of them: it is given, and not modelled.

    Args:
        graph: any.
        residuals: which.
    """
    if residuals is Residuals.MEASURED or not len(graph.moments):
        return graph
    moments = graph.moments
    residual_ns = np.zeros(len(moments), dtype=np.int64)
    if residuals in _SAMPLES:
        residual_ns = usual_residuals(graph, _SAMPLES[residuals]).residual_ns
    loose = np.flatnonzero(np.diff(graph.edges.first) == 0)
    anchor = np.where(_is_given(graph, loose), -1, _anchors(graph, loose))
    begins = loose[anchor < 0]
    residual_ns[begins] = moments.residual_ns[begins]
    edges = _with_edges(graph.edges, loose[anchor >= 0], anchor[anchor >= 0], moments.activity)
    named = np.where(moments.residual == Residual.NONE, Residual.UNEXPLAINED, moments.residual)
    names = np.where(residual_ns > 0, named, Residual.NONE)
    return replace(
        graph, edges=edges, moments=replace(moments, residual_ns=residual_ns, residual=names.astype(np.uint8))
    )


def _is_given(graph: DependencyGraph, loose: _Ints) -> NDArray[np.bool_]:
    """Whether these moments lie before the first step of their rank, in a graph of some steps."""
    if graph.is_whole or graph.steps.is_empty():
        return np.zeros(len(loose), dtype=np.bool_)
    starts = graph.steps.group_by("rank").agg(pl.col("start_moment").min())
    rank = graph.activities.select("rank")[pl.Series(graph.moments.activity[loose])]
    start = rank.join(starts, on="rank", how="left", maintain_order="left").get_column("start_moment")
    given: NDArray[np.bool_] = loose < start.fill_null(0).to_numpy()
    return given


def _anchors(graph: DependencyGraph, loose: _Ints) -> _Ints:
    """The last moment of a thread of the same rank before each of these; -1: there is none."""
    is_host = pl.col("stream").is_null() & (pl.col("kind").cast(pl.String) != ActivityKind.COLLECTIVE.value)
    columns = graph.activities.select(pl.col("rank").fill_null(-1), is_host.alias("host"))
    rank, host = (columns.get_column(name).to_numpy()[graph.moments.activity] for name in ("rank", "host"))
    of_threads = np.flatnonzero(host)
    of_threads = of_threads[np.argsort(rank[of_threads], kind="stable")]
    count = len(graph.moments)
    order = (rank[of_threads] + 1) * count + of_threads
    found = np.searchsorted(order, (rank[loose] + 1) * count + loose) - 1
    candidates = of_threads[np.maximum(found, 0)] if len(of_threads) else np.zeros_like(loose)
    same = (found >= 0) & (rank[candidates] == rank[loose])
    return np.where(same, candidates, -1)


def _with_edges(edges: Edges, after: _Ints, before: _Ints, activity: _Ints) -> Edges:
    """The edges, with edges without work for moments that have none."""
    first = edges.first.copy()
    added = np.zeros(len(first), dtype=np.int64)
    added[after + 1] = 1
    at = edges.first[after]
    return Edges(
        first + np.cumsum(added),
        np.insert(edges.before, at, before.astype(np.int32)),
        np.insert(edges.work_ns, at, 0),
        np.insert(edges.kind, at, np.uint8(EdgeKind.THREAD)),
        np.insert(edges.activity, at, activity[after].astype(np.int32)),
    )
