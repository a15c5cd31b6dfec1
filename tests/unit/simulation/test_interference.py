"""Kernels that are slower beside communication."""

from __future__ import annotations

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
from tracebraid.simulation.interference import InterferenceData, interference_of, replay_with_interference
from tracebraid.simulation.replay import replay
from tracebraid.simulation.step_times import job_step_times, step_moments

ALONE_NS, BESIDE_NS, TRANSFER_NS = 100_000, 150_000, 1_000_000


def job(beside: bool = True, alone: bool = True, steps: int = 3) -> DependencyGraph:
    """Each step has two kernels beside a collective, and two without; the host waits in between."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, steps + 1):
        with host.step(number):
            host.collective(network, TRANSFER_NS)
            for _ in range(2 * beside):
                with host.op("aten::mm", dims=[[8, 8], [8, 8]]):
                    host.launch(compute, "gemm", BESIDE_NS)
            host.synchronize()
            for _ in range(2 * alone):
                with host.op("aten::mm", dims=[[8, 8], [8, 8]]):
                    host.launch(compute, "gemm", ALONE_NS)
            host.synchronize()
    return dependency_graph(scene.linked())


def short_transfers(slowdown: float, transfer_ns: int) -> Scene:
    """The first two kernels of a step are beside its transfer if that is long; two more run alone."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number in (1, 2, 3):
        with host.step(number):
            host.collective(network, transfer_ns)
            for factor in (slowdown, 1.0):
                for _ in range(2):
                    with host.op("aten::mm", dims=[[8, 8], [8, 8]]):
                        host.launch(compute, "gemm", round(ALONE_NS * factor))
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
        ("gemm", 1, 6, 6)
    ]
    assert found.table.select("slowdown", "low", "high").row(0) == pytest.approx([BESIDE_NS / ALONE_NS] * 3)


def test_kernels_are_as_fast_as_alone_where_communication_is_gone() -> None:
    graph = job()
    changed = without_communication(graph)
    with_interference = step_ns(changed, replay_with_interference(changed, interference_of(graph)))
    without = step_ns(changed, replayed(changed))
    gains = [before - after for before, after in zip(without, with_interference, strict=True)]
    assert gains == [2 * (BESIDE_NS - ALONE_NS)] * 3


def test_kernels_that_come_beside_communication_become_slower() -> None:
    graph = job()
    # As if all of these durations had been measured without communication.
    interference = interference_of(graph)
    quiet = replace(interference, share=np.zeros_like(interference.share))
    slower = step_ns(graph, replay_with_interference(graph, quiet))
    assert all(after >= before for before, after in zip(step_ns(graph, replayed(graph)), slower, strict=True))
    assert not (replay_with_interference(graph, quiet) == replayed(graph)).all()


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
    assert (replay_with_interference(graph, interference_of(graph)) == replayed(graph)).all()


@pytest.mark.parametrize(
    ("without", "data"),
    [
        ({"beside": False}, InterferenceData.NO_OVERLAP),
        ({"alone": False}, InterferenceData.NO_COMPARISON),
        ({"steps": 1}, InterferenceData.NO_COMPARISON),
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
    assert (replay_with_interference(changed, found) == replayed(changed)).all()


def test_an_empty_graph() -> None:
    graph = dependency_graph(Scene().linked())
    found = interference_of(graph)
    assert found.data is InterferenceData.NO_OVERLAP
    assert len(replay_with_interference(graph, found)) == 0
