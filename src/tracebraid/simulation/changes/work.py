"""The work of activities: which edges hold it, how much it is, and how it is changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.graph.codes import EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = [
    "WORK",
    "is_work",
    "on_time",
    "scaled",
    "set_to",
    "split",
    "whole_ns",
    "with_totals",
    "with_work",
    "work_of",
]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]

WORK = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""Edges whose work is what an activity does itself; that of all others is a latency."""

_MOST_NS = 2.0**62
"""All work of a graph together, about 146 years: so that no time in a replay is more than 64 bits hold."""


def is_work(graph: DependencyGraph) -> _Bools:
    """Whether the work of each edge is what an activity does itself."""
    return np.isin(graph.edges.kind, WORK)


def work_of(graph: DependencyGraph) -> _Ints:
    """How long each activity works itself, in ns: of a host event without what it calls, and without waiting."""
    own = is_work(graph)
    sums = np.zeros(graph.activities.height, dtype=np.int64)
    np.add.at(sums, graph.edges.activity[own], graph.edges.work_ns[own])
    return sums


def whole_ns(times_ns: _Floats) -> _Ints:
    """Times of work, rounded to ns.

    Raises:
        ArgumentError: one of them is longer than a graph can hold.
    """
    _check_length(float(times_ns.max(initial=0.0)))
    return np.rint(times_ns).astype(np.int64)


def _check_length(longest_ns: float) -> None:
    if not longest_ns < _MOST_NS:
        raise ArgumentError(
            "the work would last longer than 146 years, more than a graph can hold: give less"
        )


def with_work(graph: DependencyGraph, work_ns: _Ints) -> DependencyGraph:
    """The graph whose edges have other work.

    Raises:
        ArgumentError: all of it together is longer than a graph can hold.
    """
    _check_length(float(work_ns.sum(dtype=np.float64)))
    return replace(graph, edges=replace(graph.edges, work_ns=np.maximum(work_ns, 0)))


def scaled(graph: DependencyGraph, chosen: _Bools, factor: float) -> DependencyGraph:
    """The chosen activities take `factor` times as long, rounded to ns.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.
        factor: not negative.

    Raises:
        ArgumentError: they would be longer than a graph can hold.
    """
    edges = graph.edges
    own = is_work(graph) & chosen[edges.activity]
    work = edges.work_ns.copy()
    work[own] = whole_ns(work[own] * factor)
    return with_work(graph, work)


def split(graph: DependencyGraph, chosen: _Bools, parts: float) -> DependencyGraph:
    """The chosen activities are divided into equal parts that run at the same time, and do not slow each other."""
    return scaled(graph, chosen, 1.0 / parts)


def set_to(graph: DependencyGraph, chosen: _Bools, duration_ns: float) -> DependencyGraph:
    """Each of the chosen activities works for so long itself.

    Raises:
        ArgumentError: no time in the graph is that of any of them.
    """
    totals = np.full(graph.activities.height, duration_ns)
    return with_totals(graph, chosen, totals)


def with_totals(graph: DependencyGraph, chosen: _Bools, totals_ns: _Floats) -> DependencyGraph:
    """Each chosen activity works for its total: its edges in proportion, or in equal parts where none has work.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.
        totals_ns: of each activity.

    Raises:
        ArgumentError: no edge is that of any of them, or they would be longer than a graph can hold.
    """
    edges = graph.edges
    own = np.flatnonzero(is_work(graph) & chosen[edges.activity])
    if not len(own):
        raise ArgumentError("what was selected has no time of its own in the graph")
    own = own[np.argsort(edges.activity[own], kind="stable")]
    activity = edges.activity[own].astype(np.int64)
    before = work_of(graph)[activity]
    share = np.where(before > 0, edges.work_ns[own] / np.maximum(before, 1), 1.0)
    share /= np.bincount(activity, share, minlength=graph.activities.height)[activity]
    # Whole ns of the running sum, so that the parts of an activity add up to its total.
    running = np.cumsum(share * totals_ns[activity])
    begins = np.r_[True, activity[1:] != activity[:-1]]
    offset = np.maximum.accumulate(np.where(begins, running - share * totals_ns[activity], 0.0))
    reached = np.rint(running - offset)
    part = np.diff(np.r_[0.0, reached])
    part[begins] = reached[begins]
    work = edges.work_ns.copy()
    work[own] = whole_ns(part)
    return with_work(graph, work)


def on_time(graph: DependencyGraph, moments: _Bools) -> DependencyGraph:
    """The graph in which some moments are no later than all that they wait for."""
    moment = graph.moments
    residual_ns = np.where(moments, 0, moment.residual_ns)
    residual = np.where(moments, Residual.NONE, moment.residual).astype(np.uint8)
    return replace(graph, moments=replace(moment, residual_ns=residual_ns, residual=residual))
