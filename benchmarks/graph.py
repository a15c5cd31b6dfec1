"""Measure the dependency graph: how long it takes to build and to replay, how well it explains and reproduces.

    python -m benchmarks.graph [TRACE ...] [--all] [--errors] [--traces DIR] [--json]

Each trace is read once; `build`, `path` (the critical path, without perturbed replays) and `replay` are medians of
three rounds in this process, after a round that does not count: in it the loops are compiled, or read from disk.
`batch` is 200 scenarios, each of which halves the work of other activities, with the steps' times as the answer.
`explained` is the share of the steps' time that is on the critical path and no residual. The errors are shares of the
measured step times, see docs/what_if.md; with `--errors` they are all that is measured. With `--all` each real trace
is measured; without TRACE, that of 54 MB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

import tracebraid
from benchmarks.graph_next_step import next_step_errors
from benchmarks.inputs import Inputs, find_real_traces
from benchmarks.table import Row, Target, as_json, as_table
from tracebraid.api.critical_paths import critical_path_of_graph
from tracebraid.api.graphing import dependency_graph
from tracebraid.graph.critical_path.find_path import PathOptions
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.timeline import Timeline
from tracebraid.simulation.replay import replay
from tracebraid.simulation.replay_many import Scenarios, replay_many
from tracebraid.simulation.reproduction import replay_error, replay_errors
from tracebraid.simulation.step_times import job_step_times, step_moments

__all__ = ["rows_of"]

T = TypeVar("T")

ROUNDS = 3
SCENARIOS = 200
GROUPS = 50
LEAST_EDGES_PER_SECOND = 20e6
LEAST_EDGES = 10_000
"""Of a graph below this the replay is mostly the call."""
MOST_BUILD_SECONDS = 1.5
"""For graph and critical path of the trace of 54 MB, after loading."""
MOST_BATCH_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("traces_given", type=Path, nargs="*", metavar="TRACE")
    parser.add_argument("--all", action="store_true", help="every real trace")
    parser.add_argument("--errors", action="store_true", help="errors alone, no times")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    folder = find_real_traces(given.traces)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as made:
        if given.all and folder is not None:
            paths = [*sorted((folder / "kineto").iterdir()), *sorted((folder / "pairs").iterdir())]
        else:
            paths = given.traces_given or [Inputs(Path(made), folder).timeline()]
        for path in paths:
            print(f"  {path.name}", file=sys.stderr)
            rows += [errors_of(path)] if given.errors else rows_of(path)
    print(as_json(rows) if given.json else as_table(rows))


def errors_of(path: Path) -> Row:
    """How well the graph of a trace, or of a folder of several, explains, reproduces and predicts."""
    job = tracebraid.open(path)
    graph = dependency_graph(job)
    found = critical_path_of_graph(graph, PathOptions(replays=0))
    return Row(_name(path), "errors", figures={"explained": _explained(found), **_errors(job, graph)})


def rows_of(path: Path) -> list[Row]:
    """A row for each part of the work on a trace or a folder of several, then what the graph is worth.

    Args:
        path: a trace or a folder.
    """
    name = _name(path)
    begun = time.perf_counter()
    traces = _loaded(path)
    load_s = time.perf_counter() - begun
    build_s, graph = _timed(lambda: dependency_graph(_not_asked(traces)))
    path_s, found = _timed(lambda: critical_path_of_graph(graph, PathOptions(replays=0)))
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
    """Of the modelled replay and of what a graph of a single step says, as shares of the measured times."""
    error = replay_error(replay_errors(graph))
    found = {
        "steps": error.steps,
        "median": error.median,
        "p95": error.p95,
        "modelled": error.modelled_share,
    }
    figures = {name: float(value) for name, value in found.items() if value is not None}
    return {**figures, **next_step_errors(traces, graph)}


if __name__ == "__main__":
    main()
