"""Slack is a promise: what a longer duration does to the ends of steps."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.graph.critical_path.made import Ints, Wait, graph_of, graphs, step_row
from tests.unit.graph.critical_path.test_walk import path_of
from tracebraid.graph.critical_path.slack import OWN_WORK, edge_slack
from tracebraid.graph.critical_path.step_bounds import step_bounds
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay


def ends(graph: DependencyGraph, work_ns: Ints) -> Ints:
    """When each step ends, and last when the whole job does, with this work."""
    times = replay(graph.edges.first, graph.edges.before, work_ns, graph.moments.residual_ns)
    return np.array([*(times[step.ends].max() for step in step_bounds(graph)), times.max()])


def test_slack_is_what_another_branch_takes_longer() -> None:
    graph = graph_of(
        [Wait(0, 3, 10, activity=0), Wait(1, 3, 4, activity=1)], [0] * 4, [step_row("s#1", 0, 3)]
    )
    assert path_of(graph).slack["slack_ns"].to_list() == [0, 6]


def test_an_activity_without_work_of_its_own_has_no_slack() -> None:
    assert path_of(graph_of([], [0, 0], [step_row("s#1", 0, 1)])).slack["slack_ns"].to_list() == [None]


@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_a_longer_duration_moves_no_end_within_its_slack_and_none_by_more_than_itself(
    graph: DependencyGraph, data: st.DataObject
) -> None:
    if not len(graph.edges):
        return
    slack = edge_slack(graph, step_bounds(graph))
    assert (slack >= 0).all()
    before = ends(graph, graph.edges.work_ns)
    edge = data.draw(st.integers(0, len(graph.edges) - 1))
    longer = data.draw(st.integers(0, 40))
    work_ns = graph.edges.work_ns.copy()
    work_ns[edge] += longer
    later = ends(graph, work_ns) - before
    assert (later <= longer).all()
    assert (later >= 0).all()
    # The slack is used up by the first step, or the job, that would end later.
    assert later.max() == max(0, longer - slack[edge])


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_what_is_on_a_path_has_no_slack(graph: DependencyGraph) -> None:
    found = path_of(graph)
    own = [kind.name.lower() for kind in OWN_WORK]
    assert own
    kinds = found.segments.filter(pl.col("kind").cast(pl.String) == "host op")
    slack = found.slack.filter(pl.col("activity").is_in(kinds["activity"].to_list()))
    assert slack.filter(pl.col("slack_ns") > 0).is_empty()
