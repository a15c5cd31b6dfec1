"""The dependency graph of a job, in one pass over its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.time.step_windows import step_windows, steps_refused
from tracebraid.api.job_answers import gather_questions, linked_with_parts, parts_of
from tracebraid.errors import InputError
from tracebraid.graph.coverage import coverage_of
from tracebraid.graph.critical_path.find_path import DEFAULT_REPLAYS as DEFAULT_REPLAYS
from tracebraid.graph.critical_path.find_path import PathOptions, find_path
from tracebraid.graph.joining import Steps, in_steps, join_ranks, step_names
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.engine import Job, Questions, answers_of
from tracebraid.model.gaps import gaps_of_rank, refuse_lost_work
from tracebraid.model.graph import CriticalPath, DependencyGraph, RankGraph, ReplayError
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.simulation.replay import replay_error, replay_errors


class RankOfGraph(Struct, frozen=True, eq=False):
    """Part of a rank in the dependency graph.

    Args:
        graph: its part of the graph.
        parts: the data for linking it with other ranks.
    """

    graph: RankGraph
    parts: RankParts


def dependency_graph(traces: LinkedTrace | Job, *, steps: Steps | None = None) -> DependencyGraph:
    """Build the dependency graph of a job over all ranks: the basis of critical path and simulation.

    Each rank is read once and released; the graph is cached with the job or linked trace.

    Args:
        traces: a job; a linked trace is a job of one rank.
        steps: a step by its number or name, or several, such as `range(3, 6)`; None: all of the traces. The graph
            contains
            the work of threads in these steps and the device work that was issued in them; earlier work that
            they waited for keeps its measured times.

    Raises:
        InputError: a file cannot be read, or several state the same rank, as with `Job.ask`; too many steps run at
            once.
        ArgumentError: there is no such step, or `traces` is of another type.

    Example::

        graph = tracebraid.dependency_graph(tracebraid.open("traces"), steps=range(3, 6))
    """
    job = Job.of(traces)
    graph = graph_beside(job, {gaps_of_rank: gaps_of_rank}, steps)
    for answers in job.take({gaps_of_rank: gaps_of_rank}):
        refuse_lost_work(answers[gaps_of_rank])
    job.add_findings(graph.findings)
    return graph


def graph_beside(job: Job, questions: Questions, steps: Steps | None = None) -> DependencyGraph:
    """Build the dependency graph in one pass with other questions, whose answers `Job.take` then has."""
    chosen = steps if steps is None or isinstance(steps, int | str) else tuple(steps)
    return job.derived((_graph, chosen), partial(_graph, job, chosen, questions))


def graph_of(traces: LinkedTrace | Job | DependencyGraph) -> DependencyGraph:
    """Return the given graph, or build that of the traces."""
    return traces if isinstance(traces, DependencyGraph) else dependency_graph(traces)


def graph_coverage(traces: LinkedTrace | Job | DependencyGraph) -> pl.DataFrame:
    """Compute the share of measured time that the graph explains, by rank, step and kind: `GRAPH_COVERAGE`.

    Args:
        traces: a job, a linked trace, or the dependency graph of one.

    Raises:
        InputError: a file cannot be read.
    """
    return coverage_of(graph_of(traces))


def rank_of_graph(linked: LinkedTrace) -> RankOfGraph:
    """Build a rank's part of the dependency graph; it keeps no reference to the linked trace."""
    answers = answers_of(linked, gather_questions(()))
    part = _part(linked, None)
    if isinstance(part, InputError):
        raise part
    return RankOfGraph(part[0], parts_of(answers, ()))


def graph_of_ranks(ranks: Sequence[RankOfGraph]) -> DependencyGraph:
    """Build the dependency graph from the parts of ranks, such as the readable ones."""
    linked = link_ranks([rank.parts for rank in ranks])
    return join_ranks([rank.graph for rank in ranks], linked)


def _graph(job: Job, steps: Steps | None, beside: Questions) -> DependencyGraph:
    taken = list(job.take({**gather_questions(()), **beside}, once={_part: partial(_part, steps=steps)}))
    for answers in taken:
        if isinstance(refusal := answers[_part], InputError):
            raise refusal
    seen = list(dict.fromkeys(name for answers in taken for name in answers[_part][1]))
    names = None if steps is None else step_names(steps, seen, job.annotation)
    ranks = linked_with_parts(job, [parts_of(answers, ()) for answers in taken])
    # Each part is released when it is joined, unless it is asked for: what remains here is small.
    return join_ranks([answers.pop(_part)[0] for answers in taken], ranks, names)


def _part(linked: LinkedTrace, steps: Steps | None) -> tuple[RankGraph, list[str]] | InputError:
    """Build a rank's part over the requested steps, and return the names of all its steps.

    The error where too many of them run at once is a value: what is asked beside the graph is answered all the same.
    """
    refusal = steps_refused(linked)
    if refusal is not None:
        return refusal
    windows = step_windows(linked)
    seen = windows.get_column("step").to_list()
    part = rank_graph(linked)
    if steps is not None:
        part = in_steps(part, _names_here(steps, seen, linked.annotation), windows)
    return replace(part.packed(), findings=(*linked.known_findings, *part.findings)), seen


def _names_here(steps: Steps, seen: list[str], annotation: str) -> tuple[str, ...]:
    """Return the selected steps that a rank has; others may be on other ranks."""
    chosen = [steps] if isinstance(steps, int | str) else list(steps)
    have = [step for step in chosen if {str(step), f"{annotation}#{step}"} & set(seen)]
    return step_names(have, seen, annotation) if have else ()


def critical_path(
    traces: LinkedTrace | Job | DependencyGraph,
    *,
    step: str | int | None = None,
    rank: int | None = None,
    replays: int = DEFAULT_REPLAYS,
    with_error: bool = True,
) -> CriticalPath:
    """Compute the critical path of each step over all ranks, and the slack of all other activities.

    The path follows, from the latest end of the step backward, the longest wait of each moment. Its work and its
    residuals add up to the step's time, to the ns.

    Args:
        traces: a job; a linked trace is a job of one rank; or the dependency graph of either.
        step: the name of a step, or its number; None: all steps.
        rank: the path stays within this rank and ends with it; waits for other ranks remain waits. None:
            the path goes over all ranks.
        replays: number of replays of each step with durations of other steps, to measure the stability of its path; 0:
            none.
        with_error: whether to measure how well a replay of the graph reproduces the measured times.

    Raises:
        ArgumentError: there is no such step or rank, or a number of replays below 0.
        InputError: a file cannot be read.

    Example::

        path = tracebraid.critical_path(tracebraid.open("traces/"))
        print(path.steps.select("step", "span_ns", "path_ns", "residual_ns", "explained"))
        print(path.segments.sort("duration_ns", descending=True).head(10))
    """
    graph = graph_of(traces)
    error = replay_error(replay_errors(graph)) if with_error else ReplayError()
    return find_path(graph, PathOptions(step, rank, replays), error)
