"""The dependency graph of a job, in one pass over its ranks."""

from __future__ import annotations

from tracebraid.api.job.taking import gather_questions, parts_of
from tracebraid.api.job.whole_job import linked_with_parts
from tracebraid.graph.joining.join_ranks import join_ranks
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.rank_graph import RankGraph
from tracebraid.model.job import Job, answers_of
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["dependency_graph"]


def dependency_graph(traces: LinkedTrace | Job, *, annotation: str = PROFILER_STEP) -> DependencyGraph:
    """What of a job waited for what, over all ranks: the ground of critical path and simulation.

    Args:
        traces: a job; a linked trace is a job of one rank.
        annotation: what marks a step.

    Raises:
        InputError: a file cannot be read.
        MissingLibraryError: numba is not installed.
    """
    questions = gather_questions(annotation, ())

    def take(linked: LinkedTrace) -> tuple[RankParts, RankGraph]:
        return parts_of(answers_of(linked, questions), annotation, ()), rank_graph(linked, annotation)

    taken = [take(traces)] if isinstance(traces, LinkedTrace) else list(traces.each(take))
    ranks = linked_with_parts(traces, annotation, [parts for parts, _ in taken])
    return join_ranks([graph for _, graph in taken], ranks, annotation)
