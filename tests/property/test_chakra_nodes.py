"""Ranks of random jobs as nodes: replayed alone, each work starts and ends when it did; nothing waits in a circle."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import Json, call, kernel, op
from tests.chakra_nodes import check_nodes, communication_of
from tests.planted import PlannedJob
from tests.property.test_joined_graphs import jobs
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.exporters.chakra.nodes.rank_nodes import rank_nodes
from tracebraid.graph.joining.steps_of_rank import in_steps
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.chakra.codes import Detail
from tracebraid.model.linked_trace import LinkedTrace

details = st.sampled_from([Detail.FULL, Detail.DEVICE])


@st.composite
def launches(draw: st.DrawFn) -> list[Json]:
    """A call and its work, on a few threads and streams; works may overlap, start early, and take no time."""
    number = draw(st.integers(1, 10_000))
    begin = draw(st.integers(0, 60))
    made = call("cudaLaunchKernel", begin, draw(st.integers(0, 6)), number, tid=draw(st.integers(1, 2)))
    work = kernel(
        "k",
        begin + draw(st.integers(0, 30)),
        draw(st.integers(0, 20)),
        number,
        stream=draw(st.integers(7, 8)),
    )
    return [made, work]


ops = st.builds(op, st.just("op"), st.integers(0, 60), st.integers(0, 30), st.integers(1, 3)).map(
    lambda e: [e]
)
traces = st.lists(launches() | ops, min_size=1, max_size=14).map(
    lambda parts: [e for part in parts for e in part]
)


def _check(linked: LinkedTrace, detail: Detail) -> None:
    graph = rank_graph(linked)
    check_nodes(rank_nodes(graph, communication_of(graph), detail), graph)


@settings(max_examples=40, deadline=None)
@given(trace=traces, detail=details)
def test_random_ranks_have_their_measured_times(trace: list[Json], detail: Detail) -> None:
    _check(linked_of(trace), detail)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), detail=details)
def test_ranks_of_random_jobs_have_their_measured_times(job: PlannedJob, detail: Detail) -> None:
    _check(job.linked(0), detail)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), detail=details)
def test_a_step_of_a_random_job_has_its_measured_times(job: PlannedJob, detail: Detail) -> None:
    linked = job.linked(0)
    windows = step_windows(linked)
    graph = in_steps(rank_graph(linked), windows.get_column("step").to_list()[-1:], windows)
    check_nodes(rank_nodes(graph, communication_of(graph), detail), graph)
