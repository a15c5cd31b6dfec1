"""Metrics of stragglers and sweeps over what may be changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracebraid
from benchmarks.made_graphs import straggler_job
from tests.planted.jobs import PlannedJob
from tests.planted.scene import Scene
from tracebraid import dependency_graph
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import SWEEP
from tracebraid.model.collectives import text_of_ranks
from tracebraid.model.graph import DependencyGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS
from tracebraid.simulation.replay import replay
from tracebraid.simulation.stragglers import stages_of_ranks, straggler_metrics_of
from tracebraid.simulation.sweep import partitions

_LATE_NS = 300_000


@pytest.fixture(scope="module")
def slow_rank(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """Three ranks, of which the kernel of the last takes 300 us longer than the 500 us of the others."""
    job = PlannedJob(3)
    for number in range(1, 4):
        with job.step(number):
            job.compute(500_000, [0, 1])
            job.compute(500_000 + _LATE_NS, [2])
            job.collective(transfer=50_000)
    return tracebraid.straggler_metrics(tracebraid.open(job.write(tmp_path_factory.mktemp("slow"))))


def _values(table: pl.DataFrame, by: str) -> dict[str, float]:
    rows = table.filter(pl.col("metric") == "S_x", pl.col("group_by") == by)
    return dict(rows.select("group", "value").iter_rows())


@pytest.mark.slow
def test_a_step_loses_what_the_slow_kernel_exceeds_the_mean_by(slow_rank: pl.DataFrame) -> None:
    total = slow_rank.row(0, named=True)
    assert total["metric"] == "S"
    # The mean of 500, 500 and 800 us is 600 us.
    assert total["step_ns"] - total["ideal_ns"] == pytest.approx(_LATE_NS - _LATE_NS / 3)
    assert total["value"] == pytest.approx(total["step_ns"] / total["ideal_ns"])


def test_the_slow_rank_and_its_kernels_are_the_cause(slow_rank: pl.DataFrame) -> None:
    total = slow_rank.item(0, "value")
    ranks, kinds = _values(slow_rank, "rank"), _values(slow_rank, "optype")
    assert ranks == pytest.approx({"0": 1.0, "1": 1.0, "2": total})
    assert kinds["gemm"] == pytest.approx(total)
    assert kinds["all_reduce"] == pytest.approx(1.0)
    slowest = slow_rank.filter(pl.col("metric") == "M_W").row(0, named=True)
    assert slowest["group"] == "2"
    assert slowest["value"] == pytest.approx(1.0)
    assert "stage" not in slow_rank.get_column("group_by").to_list()


@pytest.mark.slow
def test_of_equal_ranks_nothing_is_lost(tmp_path: Path) -> None:
    job = PlannedJob(2)
    for number in range(1, 3):
        with job.step(number):
            job.compute(500_000)
            job.collective(transfer=50_000)
    found = tracebraid.straggler_metrics(tracebraid.open(job.write(tmp_path)))
    assert found.item(0, "value") == pytest.approx(1.0, abs=1e-3)
    assert _values(found, "rank") == pytest.approx({"0": 1.0, "1": 1.0}, abs=1e-3)


def test_a_trace_without_events_has_no_slowdown() -> None:
    found = tracebraid.straggler_metrics(Scene().linked())
    assert found.filter(pl.col("metric") == "S").get_column("value").to_list() == [None]


def test_stages_are_positions_in_the_process_groups_of_pipelines() -> None:
    def stages(*members: tuple[str | None, list[int] | None]) -> dict[int, int]:
        rows = pl.DataFrame(
            [(0, description, text_of_ranks(ranks)) for description, ranks in members],
            schema={"rank": pl.Int64, "description": pl.String, "group_ranks": pl.String},
            orient="row",
        )
        every = MEMBERS.conform(rows, fill_missing=True)
        linked = LinkedRanks(RANKS.empty(), CLOCKS.empty(), every, MATCHED_COLLECTIVES.empty())
        return dict(stages_of_ranks(linked).iter_rows())

    assert stages(("mesh_pp", [0, 2]), ("mesh_pp", [1, 3]), ("mesh_dp", [0, 1])) == {0: 0, 2: 1, 1: 0, 3: 1}
    assert stages(("PIPELINE_MODEL_PARALLEL_GROUP", [4, 5])) == {4: 0, 5: 1}
    assert stages(("opportunity", [0, 1]), (None, [0, 1]), ("mesh_pp", None)) == {}
    assert stages(("mesh_pp", [0, 1]), ("mesh_pp", [1, 0])) == {}


seconds = st.integers(1, 5_000).map(lambda number: number / 1000)


@pytest.mark.slow
@given(st.lists(st.tuples(seconds, seconds, seconds, seconds), min_size=2, max_size=4))
@settings(deadline=None, derandomize=True, max_examples=15)
def test_slowdown_is_at_least_1_where_all_ranks_and_steps_are_alike(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[float, float, float, float]]
) -> None:
    """A step is a convex function of work, so that by the mean over ranks and steps it gets no longer."""
    folder = tmp_path_factory.mktemp("alike")
    rows = [
        {"step": step, "dp_rank": dp_rank, "stage": 0, "rank": dp_rank, "optype": op[:-4], "op": op}
        | {"duration": works[2 * number + dp_rank], "transfer_duration": None if number == 0 else 0.0}
        for step, works in enumerate(drawn)
        for dp_rank in (0, 1)
        for number, op in enumerate(("forward-compute_0_0", "x-all-reduce_0_0"))
    ]
    schema = {"duration": pl.Float32, "transfer_duration": pl.Float32}
    frame = pl.DataFrame(rows, schema_overrides=schema).with_columns(launch_delay=0.0)
    frame.write_parquet(folder / "ops.parquet")
    edges = {"before": ["forward-compute_0_0"], "after": ["x-all-reduce_0_0"]}
    pl.DataFrame(edges).write_parquet(folder / "edges.parquet")
    groups = {"group": [0], "op": ["x-all-reduce_0_0"], "across_dp_ranks": [True]}
    pl.DataFrame(groups).write_parquet(folder / "groups.parquet")
    job = straggler_job(folder)
    found = straggler_metrics_of(job.graph, job.operations)
    slowest = np.array(drawn, dtype=np.float32)[:, :2].max(axis=1).mean()
    mean = np.array(drawn, dtype=np.float32)[:, :2].mean()
    assert found.slowdown is not None
    assert found.slowdown >= 1 - 1e-9
    assert found.slowdown == pytest.approx(float(slowest / mean), rel=1e-5)


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


@pytest.mark.slow
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
