"""The critical path of each step of a graph, with all that is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.critical_path.resampling import samples
from tracebraid.graph.critical_path.segments import activity_columns, segments
from tracebraid.graph.critical_path.slack import edge_slack, slack
from tracebraid.graph.critical_path.stability import replays_on_path, stability_table
from tracebraid.graph.critical_path.step_bounds import StepBounds, step_bounds
from tracebraid.graph.critical_path.totals import path_hops, path_steps, path_totals
from tracebraid.graph.critical_path.walk import EXCLUDED, allowed_edges, way_back
from tracebraid.graph.latest_edges import ready_times
from tracebraid.model.answers.graph.critical_path import PATH_SEGMENTS, PATH_STABILITY
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.model.step import some_steps

__all__ = ["DEFAULT_REPLAYS", "PathOptions", "find_path"]

_Flags = NDArray[np.bool_]

DEFAULT_REPLAYS = 100
"""Perturbed replays of each step: a share of them is then right to 10 percentage points (95 % confidence)."""


@dataclass(frozen=True)
class PathOptions:
    """Which paths are asked for.

    Args:
        step: the name of a step, or its number; None: all steps.
        rank: the path stays within this rank and ends with it; None: it goes over all ranks.
        replays: perturbed replays of each step; 0: none.
    """

    step: str | int | None = None
    rank: int | None = None
    replays: int = DEFAULT_REPLAYS


def find_path(graph: DependencyGraph, options: PathOptions, replay_error: ReplayError) -> CriticalPath:
    """The critical path of each step that is asked for.

    Args:
        graph: the graph.
        options: which paths.
        replay_error: how well the graph's model reproduces the measured times.

    Raises:
        ArgumentError: there is no such step or rank, or a number of replays below 0.
    """
    _check(graph, options)
    bounds = _chosen(step_bounds(graph, options.rank), options.step)
    allowed = np.ones(len(graph.edges), dtype=np.bool_)
    if options.rank is not None:
        allowed = allowed_edges(graph, options.rank)
    ready_ns = np.where(allowed, ready_times(graph.edges, graph.moments.time_ns), EXCLUDED)
    columns = activity_columns(graph)
    parts = [segments(graph, columns, way_back(graph, ready_ns, step), step.step) for step in bounds]
    found = pl.concat([PATH_SEGMENTS.empty(), *parts])
    stability = _stability(graph, bounds, parts, allowed, options.replays)
    found = _with_shares(found, stability, options.replays)
    hops = path_hops(found)
    steps = path_steps(_spans(bounds), found, hops)
    left = slack(graph, edge_slack(graph, step_bounds(graph)))
    return CriticalPath(
        steps,
        found,
        path_totals(found, steps),
        hops,
        left if options.rank is None else left.filter(pl.col("rank") == options.rank),
        stability,
        _ranks(graph),
        options.rank,
        replay_error,
        graph.findings,
    )


def _check(graph: DependencyGraph, options: PathOptions) -> None:
    if options.replays < 0:
        raise ArgumentError(f"there cannot be {options.replays} replays: give 0 or more")
    ranks = _ranks(graph)
    if options.rank is not None and options.rank not in ranks:
        have = ", ".join(map(str, ranks)) or "none"
        raise ArgumentError(f"there is no rank {options.rank}; there are: {have}")


def _ranks(graph: DependencyGraph) -> tuple[int, ...]:
    return tuple(graph.activities.get_column("rank").drop_nulls().unique().sort().to_list())


def _chosen(bounds: list[StepBounds], step: str | int | None) -> list[StepBounds]:
    """The step of that name or number; all steps where none is named."""
    if step is None:
        return bounds
    names = [entry.step for entry in bounds if entry.step is not None]
    found = [
        entry
        for entry in bounds
        if entry.step is not None and (entry.step == str(step) or entry.step.endswith(f"#{step}"))
    ]
    if found:
        return found[:1]
    have = f"there are: {some_steps(names)}" if names else "no step is marked"
    raise ArgumentError(f"there is no step {step}; {have}")


def _stability(
    graph: DependencyGraph,
    bounds: Sequence[StepBounds],
    parts: Sequence[pl.DataFrame],
    allowed: _Flags,
    replays: int,
) -> pl.DataFrame:
    if not replays or not bounds or not len(graph.edges):
        return PATH_STABILITY.empty()
    drawn = samples(graph)
    found = [
        stability_table(
            graph,
            step.step,
            replays_on_path(graph, step, drawn, allowed, replays),
            part.get_column("activity").to_numpy(),
            replays,
        )
        for step, part in zip(bounds, parts, strict=True)
    ]
    return pl.concat(found)


def _with_shares(found: pl.DataFrame, stability: pl.DataFrame, replays: int) -> pl.DataFrame:
    """The segments with the share of replays in which the activity of each is on the path."""
    if not replays:
        return found
    shares = stability.select("step", "activity", "on_path")
    joined = found.drop("on_path").join(
        shares, on=["step", "activity"], how="left", nulls_equal=True, maintain_order="left"
    )
    return PATH_SEGMENTS.conform(joined.with_columns(pl.col("on_path").fill_null(0.0)))


def _spans(bounds: Sequence[StepBounds]) -> pl.DataFrame:
    rows = [(step.step, step.start_ns, step.end_ns - step.start_ns) for step in bounds]
    schema = {"step": pl.String(), "start_ns": pl.Int64(), "span_ns": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row")
