"""The critical path of each step of a job."""

from __future__ import annotations

from pathlib import Path

from tracebraid.api.graphing import dependency_graph
from tracebraid.exporters.path_overlay import overlay_chunks
from tracebraid.files import write_whole
from tracebraid.graph.critical_path.find_path import DEFAULT_REPLAYS, PathOptions, find_path
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.simulation.reproduction import replay_error, replay_errors

__all__ = ["DEFAULT_REPLAYS", "PathOptions", "critical_path", "critical_path_of_graph", "write_path_overlay"]


def critical_path(
    traces: LinkedTrace | Job,
    *,
    step: str | int | None = None,
    rank: int | None = None,
    replays: int = DEFAULT_REPLAYS,
    annotation: str = PROFILER_STEP,
) -> CriticalPath:
    """What the time of each step is made of, end to end, over all ranks; slack of everything else.

    The path goes from the latest end of the step back over what each moment waited for the longest. Its work and its
    residuals together are the step's time, to the ns.

    Args:
        traces: a job; a linked trace is a job of one rank.
        step: the name of a step, or its number; None: all steps.
        rank: the path stays within this rank and ends with it: where it waited for other ranks, the path waits. None:
            the path goes over all ranks.
        replays: how often each step is replayed with durations of the other steps, to see how stable its path is; 0:
            not at all.
        annotation: what marks a step, see `steps`.

    Raises:
        ArgumentError: there is no such step or rank, or a number of replays below 0.
        InputError: a file cannot be read.
        MissingLibraryError: numba is not installed.

    Example::

        path = tracebraid.critical_path(tracebraid.open("traces/"))
        print(path.steps.select("step", "span_ns", "path_ns", "residual_ns", "explained"))
        print(path.segments.sort("duration_ns", descending=True).head(10))
    """
    graph = dependency_graph(traces, annotation=annotation)
    return critical_path_of_graph(graph, PathOptions(step, rank, replays))


def critical_path_of_graph(
    graph: DependencyGraph, options: PathOptions | None = None, *, with_error: bool = True
) -> CriticalPath:
    """The critical path of each step of a graph that is at hand.

    Args:
        graph: the graph.
        options: which paths.
        with_error: also compute how well the model reproduces the measured times; else `replay_error` is empty.

    Raises:
        ArgumentError: there is no such step or rank.
    """
    error = replay_error(replay_errors(graph)) if with_error else ReplayError()
    return find_path(graph, options or PathOptions(), error)


def write_path_overlay(path: CriticalPath, target: str | Path) -> int:
    """Write a critical path as a Chrome trace, which Perfetto shows with its arrows.

    Args:
        path: the path.
        target: a new file; compressed where its name ends in `.gz`.

    Returns:
        Its size in bytes.

    Raises:
        OutputError: it is there already, or cannot be written.
    """
    return write_whole(Path(target), overlay_chunks(path), overwrite=False)
