"""The chain of moments of each thread, whatever its events are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.host.host_rows import host_rows
from tracebraid.graph.activities import rank_activities
from tracebraid.graph.hosts.thread_edges import thread_edges
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList, RankGraph

steady = settings(deadline=None, derandomize=True, max_examples=25)

events = st.lists(
    st.builds(op, st.just("op"), st.integers(0, 9), st.integers(0, 6), st.integers(1, 3)),
    min_size=1,
    max_size=12,
)
"""Nested, overlapping, without length, at equal times; on up to three threads."""


def chain_of(trace: list[Json]) -> tuple[RankGraph, EdgeList]:
    graph = rank_graph(linked_of(trace))
    return graph, graph.edges[graph.edges.kind == EdgeKind.HOST]


@steady
@given(events)
def test_the_works_of_a_thread_add_up_to_its_time(trace: list[Json]) -> None:
    linked = linked_of(trace)
    activities = rank_activities(linked, "ProfilerStep")
    table = activities.table.select("start_ns", "end_ns").to_numpy()
    times = np.ascontiguousarray(table).reshape(-1)
    edges = thread_edges(activities, times)
    assert (times.reshape(-1, 2) == table).all()
    assert (edges.work_ns == times[edges.after] - times[edges.before]).all()
    assert (edges.work_ns >= 0).all()
    for number, lane in enumerate(activities.lanes.tolist()):
        thread = activities.first_thread + number
        own = np.append(np.flatnonzero(activities.host.lane == lane), thread)
        spent = edges.work_ns[np.isin(edges.after // 2, own)].sum()
        assert spent == times[2 * thread + 1] - times[2 * thread]


@steady
@given(events)
def test_every_moment_but_the_first_of_a_thread_follows_another_of_it(trace: list[Json]) -> None:
    graph, edges = chain_of(trace)
    host = host_rows(linked_of(trace))
    threads = len(np.unique(host.lane))
    moments = 2 * (len(host.event_id) + threads)
    firsts = 2 * (len(host.event_id) + np.arange(threads))
    assert sorted([*edges.after.tolist(), *firsts.tolist()]) == list(range(moments))
    assert len(np.unique(edges.before)) == len(edges)
    lane = np.append(np.repeat(host.lane, 2), np.repeat(np.unique(host.lane), 2))
    assert (lane[edges.before] == lane[edges.after]).all()
    assert graph.activities.height == moments // 2


def test_time_belongs_to_the_innermost_event() -> None:
    graph, edges = chain_of([op("outer", 0, 10), op("inner", 2, 3), op("last", 12, 1)])
    names = graph.activities.get_column("name").cast(str).to_list()
    owners = [(names[edge], int(work)) for edge, work in zip(edges.activity, edges.work_ns, strict=True)]
    spent = {name: sum(work for owner, work in owners if owner == name) for name in names}
    assert spent == {"outer": 7_000, "inner": 3_000, "last": 1_000, names[-1]: 2_000}


def test_of_overlapping_events_the_later_has_the_time() -> None:
    graph, edges = chain_of([op("first", 0, 10), op("second", 5, 10)])
    names = graph.activities.get_column("name").cast(str).to_list()
    spent = [sum(edges.work_ns[edges.activity == names.index(name)].tolist()) for name in ("first", "second")]
    assert spent == [5_000, 10_000]
