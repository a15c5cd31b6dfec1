"""What a sweep promises of gains, and that on planted scenes it ranks what is known to matter first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.planted.jobs import PlannedJob
from tests.planted.scene import Scene
from tracebraid.api.graphing import dependency_graph
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph.sweep import SWEEP
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay
from tracebraid.simulation.sweep.targets import partitions

_STEPS = 3


@pytest.fixture(scope="module")
def graph() -> DependencyGraph:
    """In each step a kernel of 900 us beside one of 300 us on another stream, then one of 400 us, and a sync."""
    scene = Scene()
    thread = scene.thread()
    main, other = scene.stream(7), scene.stream(8)
    for number in range(1, _STEPS + 1):
        with thread.step(number):
            with thread.op("aten::mm", dims=[[64, 64], [64, 64]]):
                thread.spend(20_000)
                thread.launch(main, "long_gemm", 900_000)
            with thread.op("aten::add"):
                thread.launch(other, "beside_elementwise", 300_000)
            with thread.op("aten::mul"):
                thread.launch(main, "short_elementwise", 400_000)
            thread.synchronize()
    return dependency_graph(scene.linked())


@pytest.fixture(scope="module")
def swept(graph: DependencyGraph) -> pl.DataFrame:
    return tracebraid.sweep(graph)


def _row(swept: pl.DataFrame, by: str, name: str) -> dict[str, float]:
    return swept.filter(pl.col("group_by") == by, pl.col("name") == name).row(0, named=True)


def test_the_longest_kernel_on_the_path_is_first(swept: pl.DataFrame) -> None:
    kernels = swept.filter(pl.col("group_by") == "kernel")
    names = kernels.get_column("name").to_list()
    assert names == ["long_gemm", "short_elementwise", "beside_elementwise"]
    first = _row(swept, "kernel", "long_gemm")
    assert first["gain_50_ns"] == pytest.approx(450_000)
    assert first["on_path_ns"] == first["total_ns"] == _STEPS * 900_000


def test_work_beside_the_path_gains_nothing(swept: pl.DataFrame) -> None:
    beside = _row(swept, "kernel", "beside_elementwise")
    assert beside["on_path_ns"] == 0
    assert (beside["gain_10_ns"], beside["gain_50_ns"], beside["gain_100_ns"]) == (0, 0, 0)


def test_gains_diminish_when_another_path_takes_over() -> None:
    scene = Scene()
    thread = scene.thread()
    main, other = scene.stream(7), scene.stream(8)
    with thread.step(1):
        thread.launch(main, "long", 900_000)
        thread.launch(other, "beside", 700_000)
        thread.synchronize()
    found = _row(tracebraid.sweep(scene.linked()), "kernel", "long")
    assert found["gain_10_ns"] == pytest.approx(90_000)
    assert 90_000 < found["gain_50_ns"] == found["gain_100_ns"] <= 200_000


def test_gains_are_those_of_a_replay_of_the_changed_work(graph: DependencyGraph, swept: pl.DataFrame) -> None:
    edges, residual_ns = graph.edges, graph.moments.residual_ns
    ends = graph.steps.select("host_end_moment", "device_end_moment").to_numpy().ravel().astype(np.int64)
    before = replay(edges.first, edges.before, edges.work_ns, residual_ns)[ends].max()
    compared = 0
    for partition in partitions(graph):
        for code, name in enumerate(partition.names):
            rows = swept.filter(
                pl.col("group_by") == partition.by.value,
                pl.col("scope") == partition.scope.value,
                pl.col("name") == name,
            )
            # What has work before the first step is not made faster there.
            if rows.height and partition.by.value in {"kernel", "family", "call"}:
                work = np.where(partition.group == code, 0, edges.work_ns)
                after = replay(edges.first, edges.before, work, residual_ns)[ends].max()
                assert rows.item(0, "gain_100_ns") == pytest.approx((before - after) / _STEPS)
                compared += 1
    assert compared >= 5


def test_an_op_counts_alone_and_with_what_it_launched(swept: pl.DataFrame) -> None:
    ops = swept.filter(pl.col("group_by") == "op", pl.col("name") == "aten::mm")
    total = dict(ops.select("scope", "total_ns").iter_rows())
    assert set(total) == {"self", "launched"}
    assert total["self"] >= _STEPS * 20_000
    assert total["launched"] >= total["self"] + _STEPS * 900_000


def test_a_collective_that_all_wait_for_is_swept_by_type_and_group(tmp_path: Path) -> None:
    job = PlannedJob(2)
    for number in range(1, 3):
        with job.step(number):
            job.compute(50_000)
            job.compute(100_000, [1])
            job.collective(transfer=400_000)
    found = tracebraid.sweep(tracebraid.open(job.write(tmp_path)), by=["collective", "family"])
    assert set(found.get_column("group_by")) == {"collective", "family"}
    first = found.row(0, named=True)
    assert first["group_by"] == "collective"
    assert first["name"].startswith("all_reduce")
    assert first["gain_50_ns"] == pytest.approx(200_000)


def test_beyond_the_limit_gains_are_not_computed(graph: DependencyGraph) -> None:
    found = tracebraid.sweep(graph, by=["kernel"], groups=1)
    assert found.get_column("gain_50").null_count() == 1
    assert found.item(0, "name") == "long_gemm"
    assert _row(found, "kernel", "beside_elementwise")["gain_50_ns"] == 0


def test_bad_arguments_are_refused(graph: DependencyGraph) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.sweep(graph, by=["colour"])
    with pytest.raises(ArgumentError):
        tracebraid.sweep(graph, groups=0)


def test_a_trace_without_events_has_nothing_to_sweep() -> None:
    assert tracebraid.sweep(Scene().linked()).equals(SWEEP.empty())


def test_a_trace_in_which_nothing_takes_time_has_nothing_to_sweep() -> None:
    scene = Scene()
    for _ in range(3):
        scene.raw({"ph": "X", "cat": "cpu_op", "name": "aten::x", "pid": 1, "tid": 1, "ts": 7.0, "dur": 0.0})
    assert tracebraid.sweep(scene.linked()).is_empty()
