"""Threads of Python that wait for each other by futures and queues, of which nothing is recorded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import tracebraid
from tests.planted import Scene, Thread
from tests.unit.graph.hosts.test_host_edges import thread_edges_of
from tracebraid.api.graphing import dependency_graph
from tracebraid.graph.hosts.repeated_waits import FEWEST
from tracebraid.graph.rank_graph import rank_graph

STEPS = 6
TARGETS_NS = 5_000_000
RESULT_NS = 60_000
"""From the end of what a worker does to the moment at which the loop goes on with its result."""
FORWARD_NS, BACKWARD_NS, GAP_NS = 1_000_000, 600_000, 20_000


def ops(host: Thread, *durations_ns: int) -> None:
    for number, duration in enumerate(durations_ns):
        host.run(f"aten::op_{number}", duration)
        host.spend(GAP_NS)


def with_worker(made_ns: Sequence[int], resumed_ns: Sequence[int]) -> tuple[Scene, set[tuple[int, int]]]:
    """In each step a worker takes its time beside the forward pass; the loop goes on so long behind it.

    The worker begins at once in each step, while the loop is busy: they do not alternate.
    """
    scene = Scene(devices=[])
    host, worker = scene.thread(), scene.thread("worker")
    waits = set()
    for number, (made, resumed) in enumerate(zip(made_ns, resumed_ns, strict=True)):
        with host.step(number, 10_000):
            worker.until(host.now + 150_000)
            ops(host, FORWARD_NS)
            with worker.annotation("make targets", made - 10_000):
                worker.run("aten::zeros", 10_000)
            ended = worker.now
            host.until(ended + resumed)
            waits.add((ended, host.now))
            ops(host, BACKWARD_NS, 30_000)
    return scene, waits


def test_a_loop_waits_for_a_future() -> None:
    scene, waits = with_worker([TARGETS_NS] * STEPS, [RESULT_NS] * STEPS)
    assert waits <= thread_edges_of(rank_graph(scene.linked()))


def test_what_is_waited_for_is_gained() -> None:
    scene, _ = with_worker([TARGETS_NS] * STEPS, [RESULT_NS] * STEPS)
    found = tracebraid.what_if(dependency_graph(scene.linked()), "remove name='make targets'")
    waited = TARGETS_NS + RESULT_NS - FORWARD_NS
    assert found.gain_ns == pytest.approx(waited, rel=0.1)


def test_a_loop_that_goes_on_by_itself_waits_for_nobody() -> None:
    """It resumes as late behind the worker as it was silent: what it did itself took that long."""
    resumed = [TARGETS_NS + 500_000 * number for number in range(STEPS)]
    scene, waits = with_worker([TARGETS_NS] * STEPS, resumed)
    assert not waits & thread_edges_of(rank_graph(scene.linked()))


def test_chance_is_no_proof() -> None:
    """Fewer times than it takes it resumes right behind the worker."""
    prompt = [RESULT_NS] * (FEWEST - 1)
    late = [TARGETS_NS + 500_000 * number for number in range(STEPS)]
    scene, waits = with_worker([TARGETS_NS] * (len(prompt) + STEPS), prompt + late)
    assert not waits & thread_edges_of(rank_graph(scene.linked()))


def test_an_annotation_says_what_a_thread_does() -> None:
    """It reads for as long as the worker takes: no wait."""
    scene = Scene(devices=[])
    host, worker = scene.thread(), scene.thread("worker")
    for number in range(STEPS):
        with host.step(number, 10_000):
            worker.until(host.now + 150_000)
            ops(host, FORWARD_NS)
            with worker.annotation("make targets", TARGETS_NS):
                worker.run("aten::zeros", 10_000)
            with host.annotation("read"):
                host.until(worker.now + RESULT_NS)
            ops(host, BACKWARD_NS, 30_000)
    assert thread_edges_of(rank_graph(scene.linked())) == set()
