"""Kernels that are slower beside communication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import tracebraid
from tests.planted import Scene
from tracebraid.api.graphing import dependency_graph
from tracebraid.model.answers import INTERFERENCE
from tracebraid.model.graph.codes import ActivityKind, EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.interference import InterferenceData, interference_of, with_interference
from tracebraid.simulation.replay import replay
from tracebraid.simulation.step_times import job_step_times, step_moments

ALONE_NS, BESIDE_NS, TRANSFER_NS = 100_000, 150_000, 1_000_000


def job(beside: bool = True, alone: bool = True, steps: int = 8, shapes: bool = True) -> DependencyGraph:
    """Two kernels each step, beside a collective in the steps of odd number, without in the others."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, steps + 1):
        overlap = bool(number % 2) if beside and alone else beside
        with host.step(number):
            host.collective(network, TRANSFER_NS)
            if not overlap:
                host.synchronize()
            for _ in range(2):
                with host.op("aten::mm", dims=[[8, 8], [8, 8]] if shapes else None):
                    host.launch(compute, "gemm", BESIDE_NS if overlap else ALONE_NS)
            host.synchronize()
    return dependency_graph(scene.linked())


def phases(forward_ns: Sequence[int], backward_ns: Sequence[int], overlap: Sequence[bool]) -> DependencyGraph:
    """Each step has a kernel without communication, and one of its shapes later, beside communication or not."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number, (forward, backward, beside) in enumerate(
        zip(forward_ns, backward_ns, overlap, strict=True), 1
    ):
        with host.step(number):
            for duration, communicates in ((forward, False), (backward, beside)):
                if communicates:
                    host.collective(network, TRANSFER_NS)
                with host.op("aten::mm", dims=[[8, 8], [8, 8]]):
                    host.launch(compute, "gemm", duration)
                host.synchronize()
    return dependency_graph(scene.linked())


def short_transfers(slowdown: float, transfer_ns: int) -> Scene:
    """Two kernels each step: in steps of odd number beside a transfer, if it is long; in the others it is 1 us."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, 9):
        long_step = bool(number % 2)
        with host.step(number):
            host.collective(network, transfer_ns if long_step else 1_000)
            for _ in range(2):
                with host.op("aten::mm", dims=[[8, 8], [8, 8]]):
                    host.launch(compute, "gemm", round(ALONE_NS * (slowdown if long_step else 1.0)))
            host.synchronize()
    return scene


def without_communication(graph: DependencyGraph) -> DependencyGraph:
    """The graph where communication takes no time."""
    kinds = graph.activities.get_column("kind").cast(pl.String).to_numpy()[graph.edges.activity]
    device = graph.edges.kind == EdgeKind.DEVICE
    gone = device & (kinds == ActivityKind.COMMUNICATION.value)
    return replace(graph, edges=replace(graph.edges, work_ns=np.where(gone, 0, graph.edges.work_ns)))


def step_ns(graph: DependencyGraph, times_ns: NDArray[np.int64]) -> list[int]:
    return job_step_times(times_ns, step_moments(graph.steps)).time_ns.tolist()


def replayed(graph: DependencyGraph) -> NDArray[np.int64]:
    edges = graph.edges
    return replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)


def test_the_slowdown_is_the_ratio_of_durations() -> None:
    found = interference_of(job())
    assert found.data is InterferenceData.MEASURED
    assert found.table.select("family", "groups", "beside", "alone").cast({"family": pl.String}).rows() == [
        ("gemm", 2, 8, 8)
    ]
    assert found.table.select("slowdown", "low", "high").row(0) == pytest.approx([BESIDE_NS / ALONE_NS] * 3)


EVERY_OTHER = [True, False] * 6


@pytest.mark.parametrize(("backward_ns", "overlap"), [(120_000, EVERY_OTHER), (200_000, [True] * 12)])
def test_longer_kernels_of_the_backward_are_not_taken_for_slower(
    backward_ns: int, overlap: list[bool]
) -> None:
    """The backward's kernel is longer than the forward's, and as long with communication as without."""
    found = interference_of(phases([ALONE_NS] * 12, [backward_ns] * 12, overlap))
    assert found.data is InterferenceData.NO_COMPARISON
    assert found.table.is_empty()
    assert (found.slowdown == 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_durations_that_vary_by_chance_are_no_slowdown(seed: int) -> None:
    drawn = np.random.default_rng(seed).integers(95_000, 105_000, (2, 12)).tolist()
    found = interference_of(phases(drawn[0], drawn[1], EVERY_OTHER))
    assert found.data is InterferenceData.NO_COMPARISON


@pytest.mark.parametrize("seed", range(3))
def test_a_slowdown_of_kernels_whose_durations_vary_is_found(seed: int) -> None:
    drawn = np.random.default_rng(seed).integers(98_000, 102_000, (2, 12))
    backward = np.where(EVERY_OTHER, 1.3, 1.0) * 2 * drawn[1]
    found = interference_of(phases(drawn[0].tolist(), np.rint(backward).astype(int).tolist(), EVERY_OTHER))
    assert found.data is InterferenceData.MEASURED
    assert found.table.select("groups", "beside", "alone").row(0) == (1, 6, 6)
    assert found.table.get_column("slowdown").item() == pytest.approx(1.3, rel=0.04)


def test_kernels_are_as_fast_as_alone_where_communication_is_gone() -> None:
    graph = job()
    changed = without_communication(graph)
    slowed = step_ns(changed, replayed(with_interference(changed, interference_of(graph))))
    without = step_ns(changed, replayed(changed))
    gains = [before - after for before, after in zip(without, slowed, strict=True)]
    assert gains == [2 * (BESIDE_NS - ALONE_NS), 0] * 4


def test_kernels_that_come_beside_communication_become_slower() -> None:
    graph = job()
    # As if all of these durations had been measured without communication.
    interference = interference_of(graph)
    quiet = replace(interference, share=np.zeros_like(interference.share))
    slower = step_ns(graph, replayed(with_interference(graph, quiet)))
    assert all(after >= before for before, after in zip(step_ns(graph, replayed(graph)), slower, strict=True))
    assert not (replayed(with_interference(graph, quiet)) == replayed(graph)).all()


def test_a_change_that_ends_overlap_predicts_the_other_trace() -> None:
    """A transfer of 1 us has ended when the first kernel begins; one of 310 us is beside both of the first two."""
    both = 2 * round(1.5 * ALONE_NS) + 10_000
    found = tracebraid.what_if(short_transfers(1.5, both).linked(), "set 1us kind=communication")
    truth = tracebraid.what_if(short_transfers(1.0, 1_000).linked(), "scale 1")
    assert found.steps.get_column("after_ns").to_list() == truth.steps.get_column("before_ns").to_list()
    assert tracebraid.WhatIfNote.INTERFERENCE in found.notes
    assert found.interference.get_column("slowdown").to_list() == pytest.approx([1.5])
    assert tracebraid.WhatIfNote.SAME_OVERLAP in truth.notes


@pytest.mark.parametrize(
    ("without", "note"),
    [
        ({"alone": False}, tracebraid.WhatIfNote.NO_COMPARISON),
        ({"beside": False}, tracebraid.WhatIfNote.SAME_OVERLAP),
    ],
)
def test_the_answer_says_why_interference_is_not_modelled(
    without: dict[str, Any], note: tracebraid.WhatIfNote
) -> None:
    found = tracebraid.what_if(job(**without), "scale 0 kind=communication")
    assert note in found.notes
    assert found.interference.is_empty()


def test_an_unchanged_graph_keeps_its_times() -> None:
    graph = job()
    assert (replayed(with_interference(graph, interference_of(graph))) == replayed(graph)).all()


@pytest.mark.parametrize(
    ("without", "data"),
    [
        ({"beside": False}, InterferenceData.NO_OVERLAP),
        ({"alone": False}, InterferenceData.NO_COMPARISON),
        ({"shapes": False}, InterferenceData.NO_COMPARISON),
        ({"steps": 1}, InterferenceData.NO_COMPARISON),
        ({"steps": 6}, InterferenceData.NO_COMPARISON),
    ],
)
def test_where_there_is_nothing_to_compare_nothing_is_modelled(
    without: dict[str, Any], data: InterferenceData
) -> None:
    graph = job(**without)
    found = interference_of(graph)
    assert found.data is data
    assert found.table.equals(INTERFERENCE.empty())
    changed = without_communication(graph)
    assert (replayed(with_interference(changed, found)) == replayed(changed)).all()


def test_an_empty_graph() -> None:
    graph = dependency_graph(Scene().linked())
    found = interference_of(graph)
    assert found.data is InterferenceData.NO_OVERLAP
    assert len(replayed(with_interference(graph, found))) == 0
