"""Joined graphs of random jobs, whole and of a step: no cycle, nothing negative, the measured times by replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.planted import Host, PlannedJob
from tests.planted.graphs import check_graph, graph_of
from tracebraid.graph.coverage.coverage import coverage_of

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS = (Host("a"), Host("b", ahead_ns=-7_000_000, drift_ppm=30.0))
LONGEST_NS = 300_000


@st.composite
def jobs(draw: Callable[..., int]) -> PlannedJob:
    """A job of two to four ranks with collectives and sends, of which members may be lost."""
    ranks = draw(st.integers(2, 4))
    draw_ns = st.integers(0, LONGEST_NS)
    job = PlannedJob(
        ranks,
        hosts=HOSTS if draw(st.booleans()) else HOSTS[:1],
        **({"devices": ()} if draw(st.booleans()) else {}),  # type: ignore[arg-type]
    )
    for number in range(1, 1 + draw(st.integers(1, 3))):
        with job.step(number):
            for _ in range(draw(st.integers(0, 2))):
                job.compute(draw(draw_ns), [draw(st.integers(0, ranks - 1))])
                if draw(st.booleans()):
                    job.send(0, ranks - 1, transfer=draw(draw_ns))
                jitter = {draw(st.integers(0, ranks - 1)): draw(st.integers(-50_000, 50_000))}
                lost = [0] if draw(st.integers(0, 4)) == 0 else []
                job.collective(transfer=draw(draw_ns), jitter=jitter, lost=lost)
    return job


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), missing=st.booleans())
def test_joined_graphs_reproduce_what_was_measured(job: PlannedJob, missing: bool) -> None:
    graph = graph_of(job, missing=[job.world_size - 1] if missing else [])
    check_graph(graph)
    found = coverage_of(graph)
    assert found.get_column("ns").min() is None or found.get_column("ns").min() > 0  # type: ignore[operator]
