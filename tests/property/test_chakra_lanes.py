"""Ranks of random scenes and jobs as one compute lane: measured times with and without lanes, nothing lost."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.chakra_lanes import check_lane, has_enclosed_communication
from tests.chakra_nodes import communication_of
from tests.planted import PlannedJob, Scene
from tests.planted.random_scenes import scenes
from tests.property.test_joined_graphs import jobs
from tracebraid.exporters.chakra.merged.rank_as_lane import rank_as_lane
from tracebraid.graph.rank_graph import rank_graph


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scene=scenes())
def test_random_ranks_keep_their_measured_times(scene: Scene) -> None:
    graph = rank_graph(scene.linked())
    assume(not has_enclosed_communication(graph))
    check_lane(rank_as_lane(graph, communication_of(graph)), graph)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scene=scenes(device=False))
def test_random_ranks_without_devices_keep_their_measured_times(scene: Scene) -> None:
    graph = rank_graph(scene.linked())
    check_lane(rank_as_lane(graph, communication_of(graph)), graph)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), rank=st.integers(0, 1))
def test_ranks_of_random_jobs_keep_their_measured_times(job: PlannedJob, rank: int) -> None:
    graph = rank_graph(job.linked(rank))
    check_lane(rank_as_lane(graph, communication_of(graph)), graph)
