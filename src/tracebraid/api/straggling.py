"""What stragglers cost a job, by its dependency graph."""

from __future__ import annotations

import polars as pl

from tracebraid.api.graphing import graph_of
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.simulation.stragglers.job_operations import job_operations
from tracebraid.simulation.stragglers.metrics import straggler_metrics_of
from tracebraid.simulation.stragglers.table import straggler_table

__all__ = ["straggler_metrics"]


def straggler_metrics(
    traces: LinkedTrace | Job | DependencyGraph, *, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """Slowdown of a job by stragglers, and by which ranks, stages and kinds of operation: `STRAGGLER_METRICS`.

    Ideal work of an operation is the mean over the same operation of all ranks and steps, of communication the
    median; see `docs/what_if.md` for which operations are the same. The metrics are those of "Understanding Stragglers
    in Large Model Training Using What-if Analysis" (OSDI 2025).

    Args:
        traces: a job, a linked trace, or the dependency graph of one.
        annotation: what marks a step; a graph has its steps already.

    Raises:
        InputError: a file cannot be read.
        MissingLibraryError: numba is not installed.
    """
    graph = graph_of(traces, annotation)
    return straggler_table(straggler_metrics_of(graph, job_operations(graph, annotation)))
