"""Straggler metrics of planted jobs, of which it is known what the stragglers cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracebraid
from benchmarks.straggler_job import straggler_job
from tests.planted.jobs import PlannedJob
from tests.planted.scene import Scene
from tracebraid.model.collectives.group_ranks import text_of_ranks
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.ranks import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS
from tracebraid.simulation.stragglers.job_operations import stages_of_ranks
from tracebraid.simulation.stragglers.metrics import straggler_metrics_of

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
