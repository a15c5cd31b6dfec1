"""What changes of a job would bring."""

from __future__ import annotations

from tracebraid.api.graphing import graph_of
from tracebraid.errors import ArgumentError
from tracebraid.model.graph.change import Change
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.what_if import WhatIf
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.simulation.changes.parse import change_of
from tracebraid.simulation.what_if import what_would_be

__all__ = ["what_if"]


def what_if(
    traces: LinkedTrace | Job | DependencyGraph, *changes: str | Change, annotation: str = PROFILER_STEP
) -> WhatIf:
    """What changes would bring: the job is replayed from its dependencies with them and without them.

    Args:
        traces: a job, a linked trace, or the dependency graph of one.
        changes: what is done, in this order: as text (`"scale 0.5 family=gemm"`) or as a `Change`.
        annotation: what marks a step; a graph has its steps already.

    Raises:
        ArgumentError: there is no change, or one makes no sense, selects nothing, or cannot be.
        InputError: a file cannot be read.
        MissingLibraryError: numba is not installed.

    Example::

        found = tracebraid.what_if(tracebraid.open("traces/"), "bandwidth 2", "remove op=aten::item")
        print(found.gain, found.gain_low_ns, found.gain_high_ns)
        print(found.steps.filter(pl.col("rank").is_null()))
    """
    asked = [_change(change) for change in changes]
    graph = graph_of(traces, annotation)
    return what_would_be(graph, asked)


def _change(change: str | Change) -> Change:
    """A change, which may be text.

    Raises:
        ArgumentError: it is neither, or the text makes no sense.
    """
    if isinstance(change, str):
        return change_of(change)
    if not isinstance(change, Change):
        raise ArgumentError(
            f'{change!r} is no change; give each as text of its own, such as "scale 0.5 family=gemm"'
        )
    return change
