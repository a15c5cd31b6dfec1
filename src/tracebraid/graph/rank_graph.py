"""The part of one rank in a dependency graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.activities import rank_activities
from tracebraid.graph.contradicted import forward_edges
from tracebraid.graph.dependency_edges import dependency_edges
from tracebraid.graph.devices.device_edges import device_edges
from tracebraid.graph.devices.device_works import device_works
from tracebraid.graph.devices.graph_launches import first_of_launches
from tracebraid.graph.devices.inferred_waits import inferred_waits
from tracebraid.graph.devices.queue_edges import queue_edges
from tracebraid.graph.devices.recorded_waits import recorded_waits
from tracebraid.graph.hosts.host_edges import host_edges
from tracebraid.graph.hosts.thread_edges import thread_edges
from tracebraid.graph.hosts.waits import without_waiting
from tracebraid.graph.latencies.latencies import with_latencies
from tracebraid.graph.latencies.long_calls import with_long_calls
from tracebraid.model.graph.rank_graph import EdgeList, RankGraph
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["rank_graph"]

_Ints = NDArray[np.int64]


def rank_graph(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> RankGraph:
    """The activities of a rank, and what each of their moments waits for.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    activities = rank_activities(linked, annotation)
    times_ns = np.ascontiguousarray(activities.table.select("start_ns", "end_ns").to_numpy()).reshape(-1)
    threads = thread_edges(activities, times_ns)
    others = dependency_edges(linked.dependencies, activities)
    others = host_edges(linked, activities, threads, others, times_ns)
    works = device_works(linked, activities, times_ns)
    others = EdgeList.joined(
        [
            first_of_launches(others, works),
            queue_edges(works, activities.table, times_ns),
            recorded_waits(linked, activities, works),
            inferred_waits(linked, activities, works, times_ns),
        ]
    )
    _end_before_what_follows(others, times_ns, 2 * activities.first_device)
    others, findings = forward_edges(others, times_ns, linked.timeline.path)
    edges = [without_waiting(threads, others, times_ns), device_edges(works, others, times_ns), others]
    learned = with_latencies(EdgeList.joined(edges), times_ns, activities.table)
    findings = (*activities.findings, *findings)
    found = with_long_calls(learned.edges, times_ns, activities.table)
    return RankGraph(linked.rank, activities.table, times_ns, found, learned.latencies, findings)


def _end_before_what_follows(edges: EdgeList, times_ns: _Ints, first_of_device: int) -> None:
    """Let device work end no later than what waits for its end begins: rounding puts it up to a µs behind."""
    ends = edges[(edges.before >= first_of_device) & (edges.before % 2 == 1)]
    np.minimum.at(times_ns, ends.before, times_ns[ends.after])
    starts = times_ns[first_of_device::2]
    times_ns[first_of_device + 1 :: 2] = np.maximum(times_ns[first_of_device + 1 :: 2], starts)
