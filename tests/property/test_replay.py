"""What must hold of a replay whatever the graph, and under every change of its work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracebraid.model.graph.dependency_graph import Edges
from tracebraid.simulation.replay import replay
from tracebraid.simulation.replay_many import Scenarios, replay_many

steady = settings(deadline=None, derandomize=True, max_examples=40)

Ints = NDArray[np.int64]

most_ns = 1_000
moments = st.integers(1, 25)
durations = st.integers(0, most_ns)


@dataclass(frozen=True)
class Drawn:
    """A graph, of which only the arrays that a replay reads are there."""

    edges: Edges
    residual_ns: Ints

    def replay(self, work_ns: Ints | None = None, residual_ns: Ints | None = None) -> Ints:
        work = self.edges.work_ns if work_ns is None else work_ns
        residual = self.residual_ns if residual_ns is None else residual_ns
        return replay(self.edges.first, self.edges.before, work, residual)


@st.composite
def graphs(draw: st.DrawFn) -> Drawn:
    count = draw(moments)
    pairs = [(before, after) for after in range(count) for before in range(after)]
    drawn = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=60)) if pairs else []
    drawn.sort(key=lambda pair: pair[1])
    before = np.array([pair[0] for pair in drawn], dtype=np.int32)
    after = np.array([pair[1] for pair in drawn], dtype=np.int64)
    first = np.searchsorted(after, np.arange(count + 1)).astype(np.int64)
    work = np.array(draw(st.lists(durations, min_size=len(drawn), max_size=len(drawn))), dtype=np.int64)
    residual = np.array(draw(st.lists(durations, min_size=count, max_size=count)), dtype=np.int64)
    kind = np.zeros(len(drawn), dtype=np.uint8)
    return Drawn(Edges(first, before, work, kind, np.zeros(len(drawn), dtype=np.int32)), residual)


@given(graphs(), st.data())
@steady
def test_no_moment_is_earlier_when_work_grows(graph: Drawn, data: st.DataObject) -> None:
    count = len(graph.edges)
    more = np.array(data.draw(st.lists(durations, min_size=count, max_size=count)), dtype=np.int64)
    assert (graph.replay(graph.edges.work_ns + more) >= graph.replay()).all()


@given(graphs(), st.integers(0, 7))
@steady
def test_times_scale_with_all_that_takes_time(graph: Drawn, factor: int) -> None:
    scaled = graph.replay(graph.edges.work_ns * factor, graph.residual_ns * factor)
    assert (scaled == factor * graph.replay()).all()


@given(graphs(), st.data(), durations)
@steady
def test_work_of_an_edge_that_grows_delays_by_at_most_as_much(
    graph: Drawn, data: st.DataObject, more: int
) -> None:
    if not len(graph.edges):
        return
    work = graph.edges.work_ns.copy()
    work[data.draw(st.integers(0, len(work) - 1))] += more
    delay = graph.replay(work) - graph.replay()
    assert ((delay >= 0) & (delay <= more)).all()


@given(graphs())
@steady
def test_every_edge_and_residual_is_kept(graph: Drawn) -> None:
    times = graph.replay()
    after = np.repeat(np.arange(len(times)), np.diff(graph.edges.first))
    ready = times[graph.edges.before] + graph.edges.work_ns
    assert (times[after] >= ready + graph.residual_ns[after]).all()
    has_edges = np.diff(graph.edges.first) > 0
    assert (times[~has_edges] == graph.residual_ns[~has_edges]).all()


@given(graphs(), st.data(), st.integers(1, 5), st.sampled_from([1, 10_000]))
@steady
def test_many_scenarios_are_the_replays_of_each(
    graph: Drawn, data: st.DataObject, groups: int, budget_bytes: int
) -> None:
    count = len(graph.edges)
    group = np.array(
        data.draw(st.lists(st.integers(0, groups - 1), min_size=count, max_size=count)), dtype=np.int32
    )
    factors = st.lists(st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.5]), min_size=groups, max_size=groups)
    factor = np.array(data.draw(st.lists(factors, min_size=1, max_size=4)))
    chosen = np.flatnonzero(np.arange(len(graph.residual_ns)) % 2 == 0)
    found = replay_many(graph.edges, graph.residual_ns, Scenarios(group, factor), chosen, budget_bytes)
    for row, of_groups in enumerate(factor):
        work = np.rint(graph.edges.work_ns * of_groups[group]).astype(np.int64)
        assert (found[row] == graph.replay(work)[chosen]).all()
