"""The dependency graph of a job, in one pass over its ranks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.api.job.taking import gather_questions, parts_of
from tracebraid.api.job.whole_job import linked_with_parts
from tracebraid.errors import ArgumentError
from tracebraid.graph.coverage.coverage import coverage_of
from tracebraid.graph.joining.join_ranks import join_ranks
from tracebraid.graph.joining.steps_of_rank import Steps, in_steps, step_names
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.rank_graph import RankGraph
from tracebraid.model.job import Job, Questions, answers_of
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["RankOfGraph", "dependency_graph", "graph_coverage", "graph_of", "graph_of_ranks", "rank_of_graph"]


@dataclass(frozen=True, eq=False)
class RankOfGraph:
    """What is kept of a rank for the dependency graph.

    Args:
        graph: its part of the graph.
        parts: what links it with the other ranks.
    """

    graph: RankGraph
    parts: RankParts


def dependency_graph(
    traces: LinkedTrace | Job, *, steps: Steps | None = None, annotation: str = PROFILER_STEP
) -> DependencyGraph:
    """What of a job waited for what, over all ranks: the ground of critical path and simulation.

    Each rank is read once and released; the graph is kept with the job, or the linked trace, for the next question.

    Args:
        traces: a job; a linked trace is a job of one rank.
        steps: a step by its number or name, or several, such as `range(3, 6)`; None: all of the traces. The graph has
            what threads did in these steps and the device work that was issued in them; what this waited for from
            before happens when it did.
        annotation: what marks a step.

    Raises:
        InputError: a file of any rank cannot be read, as with `Job.ask`; nothing is left out silently. Or several say
            that they are of the same rank.
        ArgumentError: there is no such step, or `traces` is none.
        MissingLibraryError: numba is not installed.

    Example::

        graph = tracebraid.dependency_graph(tracebraid.open("traces"), steps=range(3, 6))
    """
    if not isinstance(traces, Job | LinkedTrace):
        raise ArgumentError(f"{traces!r} is no job and no linked trace; give tracebraid.open(path)")
    chosen = steps if steps is None or isinstance(steps, int | str) else tuple(steps)
    if isinstance(traces, LinkedTrace):
        return traces.derived(_graph, chosen, annotation)
    return traces.derived((_graph, chosen, annotation), partial(_graph, traces, chosen, annotation))


def graph_of(traces: LinkedTrace | Job | DependencyGraph, annotation: str = PROFILER_STEP) -> DependencyGraph:
    """The graph itself where one is given, else that of the traces.

    Args:
        traces: a job, a linked trace, or the dependency graph of one.
        annotation: what marks a step; a graph has its steps already.
    """
    return traces if isinstance(traces, DependencyGraph) else dependency_graph(traces, annotation=annotation)


def graph_coverage(
    traces: LinkedTrace | Job | DependencyGraph, *, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """How much of the measured time the graph explains, by rank, step and kind: `GRAPH_COVERAGE`.

    Args:
        traces: a job, a linked trace, or the dependency graph of one.
        annotation: what marks a step; a graph has its steps already.

    Raises:
        InputError: a file cannot be read.
        MissingLibraryError: numba is not installed.
    """
    return coverage_of(graph_of(traces, annotation))


def rank_of_graph(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> RankOfGraph:
    """What is kept of a rank for the dependency graph; holds nothing of the linked trace."""
    answers = answers_of(linked, gather_questions(annotation, ()))
    return RankOfGraph(_part(linked, None, annotation)[0], parts_of(answers, annotation, ()))


def graph_of_ranks(ranks: Sequence[RankOfGraph], annotation: str = PROFILER_STEP) -> DependencyGraph:
    """The dependency graph from what was kept of each rank, such as of those that can be read.

    Raises:
        ArgumentError: there are too many moments for one graph.
        MissingLibraryError: numba is not installed.
    """
    linked = link_ranks([rank.parts for rank in ranks])
    return join_ranks([rank.graph for rank in ranks], linked, annotation)


def _graph(traces: LinkedTrace | Job, steps: Steps | None, annotation: str) -> DependencyGraph:
    asked = gather_questions(annotation, ())
    taken = list(_take(traces, asked, partial(_part, steps=steps, annotation=annotation)))
    seen = list(dict.fromkeys(name for answers in taken for name in answers[_part][1]))
    names = None if steps is None else step_names(steps, seen, annotation)
    ranks = linked_with_parts(traces, annotation, [parts_of(answers, annotation, ()) for answers in taken])
    # Each part is released when it is joined, unless it is asked for: what remains here is small.
    return join_ranks([answers.pop(_part)[0] for answers in taken], ranks, annotation, names)


def _take(
    traces: LinkedTrace | Job, asked: Questions, part: Callable[[LinkedTrace], tuple[RankGraph, list[str]]]
) -> Iterable[dict[Hashable, Any]]:
    if isinstance(traces, LinkedTrace):
        return [answers_of(traces, {**asked, _part: part})]
    return traces.take(asked, once={_part: part})


def _part(linked: LinkedTrace, steps: Steps | None, annotation: str) -> tuple[RankGraph, list[str]]:
    """The part of a rank, of its steps among those that are asked for, and the names of all of its steps."""
    windows = step_windows(linked, annotation)
    seen = windows.get_column("step").to_list()
    part = rank_graph(linked, annotation)
    if steps is not None:
        part = in_steps(part, _names_here(steps, seen, annotation), windows)
    return replace(part.packed(), findings=(*linked.known_findings, *part.findings)), seen


def _names_here(steps: Steps, seen: list[str], annotation: str) -> tuple[str, ...]:
    """The chosen steps that a rank has; another rank may have the others."""
    chosen = [steps] if isinstance(steps, int | str) else list(steps)
    have = [step for step in chosen if {str(step), f"{annotation}#{step}"} & set(seen)]
    return step_names(have, seen, annotation) if have else ()
