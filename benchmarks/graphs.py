"""Dependency graphs: building, joining, replaying, and how well they explain and predict."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

import tracebraid
from benchmarks.inputs import Given
from benchmarks.made_graphs import StragglerJob, straggler_job
from benchmarks.measure import Row, Stopwatch, Target, row_of, task
from tracebraid.api.graphing import critical_path, dependency_graph
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.engine import Job
from tracebraid.model.graph import CriticalPath, DependencyGraph
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.timeline import Timeline
from tracebraid.simulation.replay import (
    Residuals,
    job_step_times,
    replay,
    replay_error,
    replay_errors,
    step_moments,
    with_residuals,
)
from tracebraid.simulation.stragglers import StragglerMetrics, ideal_work, straggler_metrics_of
from tracebraid.simulation.sweep import Scenarios, replay_many

MOST_STEPS = 8
"""Graphs of single steps that are built of a trace at most: its first."""


def next_step_errors(traces: LinkedTrace | Job, graph: DependencyGraph) -> dict[str, float]:
    """Medians and 95th percentiles of three errors, as shares of what was measured; empty with fewer than two steps.

    `alone`: of the modelled replay of a graph of one step against that step; `next`: against the one after it;
    `neighbours`: of the step as it was measured against the one after it, which no model of one step can beat. All
    are of spans, as of a step alone it is not known when the one before ended. Steps without time are left out."""
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


T = TypeVar("T")

ROUNDS = 3
SCENARIOS = 200
GROUPS = 50
LEAST_EDGES_PER_SECOND = 20e6
LEAST_EDGES = 10_000
"""A smaller graph's replay is mostly the call."""
MOST_BUILD_SECONDS = 1.5
"""For graph and critical path of the trace of 54 MB, after loading."""
MOST_BATCH_SECONDS = 5.0


def errors_of(path: Path) -> Row:
    """Measure how well the graph of a trace, or of a folder of several, explains, reproduces and predicts."""
    job = tracebraid.open(path)
    graph = dependency_graph(job)
    found = critical_path(graph, replays=0)
    return Row(_name(path), "errors", figures={"explained": _explained(found), **_errors(job, graph)})


def graph_rows(path: Path) -> list[Row]:
    """A row for each part of the work on a trace or a folder of several, then what the graph is worth."""
    name = _name(path)
    begun = time.perf_counter()
    traces = _loaded(path)
    load_s = time.perf_counter() - begun
    build_s, graph = _timed(lambda: dependency_graph(_not_asked(traces)))
    path_s, found = _timed(lambda: critical_path(graph, replays=0))
    edges, residual_ns = graph.edges, graph.moments.residual_ns
    replay_s, _ = _timed(lambda: replay(edges.first, edges.before, edges.work_ns, residual_ns))
    batch_s, _ = _timed(lambda: _batch(graph))
    speed = len(edges) / max(replay_s, 1e-9)
    fast = Target(f"{LEAST_EDGES_PER_SECOND / 1e6:.0f} million edges/s", speed >= LEAST_EDGES_PER_SECOND)
    soon = Target(f"with path {MOST_BUILD_SECONDS} s", build_s + path_s <= MOST_BUILD_SECONDS)
    size = {"moments": float(len(graph.moments)), "edges": float(len(edges))}
    return [
        Row(name, "load", load_s),
        Row(name, "build", build_s, figures=size, target=soon),
        Row(name, "path", path_s, figures={"explained": _explained(found)}),
        Row(
            name,
            "replay",
            replay_s,
            figures={"million edges/s": speed / 1e6},
            target=fast if len(edges) >= LEAST_EDGES else None,
        ),
        Row(name, "batch", batch_s, target=Target(f"{MOST_BATCH_SECONDS} s", batch_s <= MOST_BATCH_SECONDS)),
        Row(name, "errors", figures=_errors(_not_asked(traces), graph)),
    ]


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".json")


def _explained(found: CriticalPath) -> float:
    span = int(found.steps.get_column("span_ns").sum())
    return int(found.steps.get_column("path_ns").sum()) / span if span else 1.0


def _loaded(path: Path) -> Timeline | Path:
    """The timeline of a job of one rank that has no Execution Trace; of others `build` reads the files anew."""
    job = tracebraid.open(path)
    linked = job[job.ranks[0]]
    return linked.timeline if len(job.ranks) == 1 and linked.et is None else path


def _not_asked(traces: Timeline | Path) -> LinkedTrace | Job:
    """The same traces, of which nothing is known yet: graphs are kept with what they were asked of."""
    return tracebraid.open(traces) if isinstance(traces, Path) else link_traces(traces)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """The median time of the rounds, and what came of the last."""
    seconds = []
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - begun)
    return median(seconds[1:]), found


def _batch(graph: DependencyGraph) -> None:
    """Scenarios that each halve the work of one group of activities."""
    moments = step_moments(graph.steps)
    scenario = np.arange(SCENARIOS)
    factor = np.ones((SCENARIOS, GROUPS))
    factor[scenario, scenario % GROUPS] = 0.5
    scenarios = Scenarios((graph.edges.activity % GROUPS).astype(np.int32), factor)
    times = replay_many(graph.edges, graph.moments.residual_ns, scenarios, moments.chosen)
    job_step_times(times, moments.of_chosen())


def _errors(traces: LinkedTrace | Job, graph: DependencyGraph) -> dict[str, float]:
    """Errors of the modelled replay and of the graph of a single step, as shares of the measured times."""
    error = replay_error(replay_errors(graph))
    found = {
        "steps": error.steps,
        "median": error.median,
        "p95": error.p95,
        "modelled": error.modelled_share,
    }
    figures = {name: float(value) for name, value in found.items() if value is not None}
    return {**figures, **next_step_errors(traces, graph)}


def graph(given: Given) -> Iterator[Row]:
    """Time to build and to replay the dependency graph, and how well it explains, reproduces and predicts.

    `build`, `path` (without perturbed replays) and `replay` are medians after a round that does not count; `batch` is
    200 scenarios, each of which halves the work of other activities. `explained` is the share of the steps' time on
    the critical path that is no residual; errors are shares of the measured step times, see docs/what_if.md."""
    real = given.inputs.real
    paths = given.paths or [given.timeline]
    if given.all and real is not None:
        paths = [*sorted((real / "kineto").iterdir()), *sorted((real / "pairs").iterdir())]
    for path in paths:
        yield from [errors_of(path)] if given.errors else graph_rows(path)


def graph_job(given: Given) -> Iterator[Row]:
    """Joining and replaying the graph of made ranks, with `nodes` events each; without reading and linking."""
    for ranks in given.ranks:
        took = task("made_graphs:graph_job", ranks, given.nodes)
        speed = took.parts["edges"] / took.parts["replay"] / 1e6
        yield row_of("graph_job", f"{ranks} ranks", took, {**took.parts, "million edges/s": speed})


_BY = ("dp_rank", "stage", "optype")


def as_published(metrics: StragglerMetrics) -> dict[str, Any]:
    """The metrics as the paper names them."""
    return {
        "S": metrics.slowdown,
        "S_by": {name: dict(metrics.by.get(name, {})) for name in _BY},
        "M_S": metrics.last_stage,
        "M_W": metrics.slowest_workers,
    }


def straggler_step_errors(job: StragglerJob, expected: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """By how much step times differ from the published, as a share: the mean of steps, and the most."""
    edges, delay = job.graph.edges, job.graph.moments.residual_ns
    none = np.zeros_like(delay)
    given = {
        "step_t_base": (edges.work_ns, delay),
        "step_t_nodelay": (edges.work_ns, none),
        "step_t_noblk": (ideal_work(job.graph, job.operations), none),
    }
    moments = step_moments(job.graph.steps)
    found = {}
    for name, (work_ns, residual_ns) in given.items():
        published: NDArray[np.float64] = np.array(
            [expected.get(name, {}).get(step, np.nan) for step in moments.names]
        )
        times = replay(edges.first, edges.before, work_ns, residual_ns)
        errors = np.abs(job_step_times(times, moments).time_ns / 1e9 / published - 1)
        if not np.isnan(errors).all():
            found[name] = (float(np.nanmean(errors)), float(np.nanmax(errors)))
    return found


def stragglers(given: Given) -> Iterator[Row]:
    """Metrics of a published job in DIR, and how far they are from those in its `expected.json`, where it has one."""
    if not given.paths:
        raise SystemExit("name the folder of the job")
    folder, watch = given.paths[0], Stopwatch()
    job = straggler_job(folder)
    found = as_published(straggler_metrics_of(job.graph, job.operations))
    yield row_of("stragglers", "reading and metrics", watch.stop())
    path = folder / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    pairs = {
        "S": (found["S"], expected.get("blocking_slowdown")),
        "M_S": (found["M_S"], expected.get("Ms")),
        "M_W": (found["M_W"], expected.get("Mw")),
    }
    for by in _BY:
        published = expected.get(f"blocking_decompose_by_{by}", {})
        pairs |= {f"S {by} {label}": (own, published.get(label)) for label, own in found["S_by"][by].items()}
    for name, (own, other) in pairs.items():
        figures = {"ours": own, "published": other, "differ": own / other - 1 if own and other else None}
        known = {key: float(value) for key, value in figures.items() if value is not None}
        yield Row("stragglers", name, figures=known)
    for name, (error, worst) in straggler_step_errors(job, expected).items():
        yield Row("stragglers", name, figures={"error": error, "worst": worst})
