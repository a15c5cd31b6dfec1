"""What a graph of a single step says about the step after it, beside how much the steps differ by themselves."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.api.graphing import dependency_graph
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.simulation.replay import replay
from tracebraid.simulation.residual_choice import Residuals, with_residuals
from tracebraid.simulation.step_times import job_step_times, step_moments

__all__ = ["next_step_errors"]

MOST_STEPS = 8
"""Graphs of single steps that are built of a trace at most: its first."""


def next_step_errors(traces: LinkedTrace | Job, graph: DependencyGraph) -> dict[str, float]:
    """Medians and 95th percentiles of three errors, as shares of what was measured; empty with fewer than two steps.

    `alone`: of the modelled replay of a graph of one step against that step; `next`: against the one after it;
    `neighbours`: of the step as it was measured against the one after it, which no model of one step can beat. All
    are of spans, as of a step alone it is not known when the one before ended. Steps without time are left out.

    Args:
        traces: what the graph was built of.
        graph: of all steps.
    """
    moments = step_moments(graph.steps)
    span_ns = job_step_times(graph.moments.time_ns, moments).span_ns
    found = []
    for step, name in enumerate(moments.names[: min(len(span_ns) - 1, MOST_STEPS)]):
        if name is None or not (span_ns[step] and span_ns[step + 1]):
            continue
        replayed = _span_ns(with_residuals(dependency_graph(traces, steps=name), Residuals.MODELLED))
        ratios = (replayed / span_ns[step], replayed / span_ns[step + 1], span_ns[step] / span_ns[step + 1])
        found.append(dict(zip(("alone", "next", "neighbours"), np.abs(np.array(ratios) - 1), strict=True)))
    if not found:
        return {}
    errors = pl.DataFrame(found)
    shares = {"median": 0.5, "p95": 0.95}
    return {
        f"{column} {name}": float(np.quantile(errors[column].to_numpy(), share))
        for column in errors.columns
        for name, share in shares.items()
    }


def _span_ns(graph: DependencyGraph) -> int:
    edges = graph.edges
    times = replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)
    return int(job_step_times(times, step_moments(graph.steps)).span_ns[0])
