"""What a step would gain were each kind of work faster."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tracebraid.api.graphing import graph_of
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph.sweep import SweepBy
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.simulation.sweep.sweep import DEFAULT_GROUPS, sweep_of

__all__ = ["sweep"]


def sweep(
    traces: LinkedTrace | Job | DependencyGraph,
    *,
    by: str | Collection[str] = (),
    groups: int = DEFAULT_GROUPS,
    annotation: str = PROFILER_STEP,
) -> pl.DataFrame:
    """What to optimise first: the gain of a step were each op, kernel, module, ... faster by 10, 50, 100 %: `SWEEP`.

    Args:
        traces: a job, a linked trace, or the dependency graph of one.
        by: by what work is grouped (a value of `SweepBy`, such as `family`, or several); empty: by each.
        groups: of how many groups gains are computed, those with most work on the critical path; positive.
        annotation: what marks a step; a graph has its steps already.

    Raises:
        ArgumentError: work cannot be grouped by that, or `groups` is not positive.
        InputError: a file cannot be read.
        MissingLibraryError: numba is not installed.
    """
    known = {kind.value: kind for kind in SweepBy}
    names = [by] if isinstance(by, str) else by
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ArgumentError(f"work is not grouped by {unknown[0]}, but by any of: {', '.join(known)}")
    if groups < 1:
        raise ArgumentError(f"groups is {groups}, but a sweep needs one group at least")
    graph = graph_of(traces, annotation)
    chosen = [known[name] for name in names] or list(SweepBy)
    return sweep_of(graph, by=chosen, groups=groups, annotation=annotation)
