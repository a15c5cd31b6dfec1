"""Slowdown by stragglers, of a whole job and of parts of it.

The metrics are those of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay
from tracebraid.simulation.residual_choice import Residuals, with_residuals
from tracebraid.simulation.step_times import StepMoments, job_step_times, step_moments
from tracebraid.simulation.stragglers.operations import Operations, ideal_work

__all__ = ["SLOWEST_PERCENT", "StragglerMetrics", "straggler_metrics_of"]

_Ints = NDArray[np.int64]

SLOWEST_PERCENT = 3
"""Workers that count as the slowest, in percent, rounded up: as the paper has it."""


@dataclass(frozen=True, eq=False)
class StragglerMetrics:
    """Slowdowns, and shares of what is lost to stragglers.

    Args:
        step_ns: mean time of a step without residuals; null: there are no steps.
        ideal_ns: the same, were the same operations equally long.
        slowdown: S, `step_ns / ideal_ns`; null: a step takes no time.
        by: S_x, by what activities are grouped by and the label: the ideal with only that group's work put back,
            over the ideal.
        step_ns_by: the mean time of a step of which S_x comes.
        last_stage: M_S, the share of `step_ns - ideal_ns` that goes when the last stage's work is made ideal; null:
            there are no stages, or nothing is lost.
        slowest_workers: M_W, the same of the slowest workers.
        slowest: the labels of these workers.
    """

    step_ns: float | None
    ideal_ns: float | None
    slowdown: float | None
    by: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    step_ns_by: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    last_stage: float | None = None
    slowest_workers: float | None = None
    slowest: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Engine:
    """Replays of a graph."""

    graph: DependencyGraph
    steps: StepMoments

    def step_ns(self, work_ns: _Ints) -> float:
        edges = self.graph.edges
        times = replay(edges.first, edges.before, work_ns, self.graph.moments.residual_ns)
        return float(job_step_times(times, self.steps).time_ns.mean())


def straggler_metrics_of(graph: DependencyGraph, operations: Operations) -> StragglerMetrics:
    """The straggler metrics of a graph.

    Args:
        graph: the graph.
        operations: which of its activities are the same operation, and how they are grouped; stages are the group
            `stage`, of which the last is the one with the greatest number.
    """
    if graph.steps.is_empty():
        return StragglerMetrics(None, None, None)
    graph = with_residuals(graph, Residuals.NONE)
    engine = _Engine(graph, step_moments(graph.steps))
    own, ideal = graph.edges.work_ns, ideal_work(graph, operations)
    step_ns, ideal_ns = engine.step_ns(own), engine.step_ns(ideal)
    if ideal_ns <= 0:
        return StragglerMetrics(step_ns, ideal_ns, None)
    times = {name: _put_back(engine, labels, ideal, ideal_ns) for name, labels in operations.groups.items()}
    by = {
        name: {label: time_ns / ideal_ns for label, time_ns in of_labels.items()}
        for name, of_labels in times.items()
    }

    def share(chosen: pl.Series) -> float | None:
        """Of what is lost, what goes when the work of the chosen activities is made ideal."""
        if step_ns <= ideal_ns:
            return None
        work = np.where(chosen.fill_null(False).to_numpy()[graph.edges.activity], ideal, own)
        return (step_ns - engine.step_ns(work)) / (step_ns - ideal_ns)

    stages = operations.groups.get("stage")
    last = _last(stages) if stages is not None else None
    slowest = _slowest(operations, by)
    return StragglerMetrics(
        step_ns,
        ideal_ns,
        step_ns / ideal_ns,
        by,
        times,
        share(stages == last) if stages is not None and last is not None else None,
        share(operations.workers.is_in(slowest)) if slowest else None,
        slowest,
    )


def _put_back(engine: _Engine, labels: pl.Series, ideal: _Ints, ideal_ns: float) -> dict[str, float]:
    """The mean time of a step in which only the work of one label is as it was, by label."""
    edges = engine.graph.edges
    names = sorted(labels.drop_nulls().unique().to_list(), key=_numeric)
    number = {name: row for row, name in enumerate(names)}
    codes = labels.replace_strict(number, default=None, return_dtype=pl.Int64).fill_null(-1).to_numpy()
    of_edge = codes[edges.activity]
    differs = np.unique(of_edge[edges.work_ns != ideal])
    found = {}
    for name, code in number.items():
        if code in differs:
            found[name] = engine.step_ns(np.where(of_edge == code, edges.work_ns, ideal))
        else:
            found[name] = ideal_ns
    return found


def _slowest(operations: Operations, by: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """The labels of the slowest workers; of equal scores that whose other slowdowns are greater comes first."""
    labels = pl.DataFrame(
        {"worker": operations.workers, **{name: operations.groups[name] for name in operations.scored_by}}
    )
    found = {}
    for worker, *own in labels.drop_nulls().unique(maintain_order=True).iter_rows():
        found[worker] = sorted(by[name][label] for name, label in zip(operations.scored_by, own, strict=True))
    count = -(-SLOWEST_PERCENT * len(found) // 100)
    return tuple(sorted(found, key=lambda worker: (found[worker], worker), reverse=True)[:count])


def _last(stages: pl.Series) -> str | None:
    names = stages.drop_nulls().unique().to_list()
    return max(names, key=_numeric) if names else None


def _numeric(name: str) -> tuple[bool, int, str]:
    """Numbers by their value, before other names."""
    return (False, int(name), "") if name.isdecimal() else (True, 0, name)
