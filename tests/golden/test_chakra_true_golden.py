"""Chakra traces of real jobs are true, as their runs take the measured times, and complete, as the analyses count."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from benchmarks.chakra_true import DEMO, TracedJob, errors_of, nodes_of, run_of, traced_job
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.model.chakra.codes import Detail
from tracebraid.model.chakra.network import Lanes
from tracebraid.model.linked_trace import LinkedTrace

JOBS = ("pairs/dlrm_v100_8rank", "kineto/sampled_2_of_128", "kineto/mi300x_decode_graph_launch.json.gz")
"""The last has a rank, works that overlap, and a launch of a graph."""
WITH_LANES, WITHOUT_LANES = 0.001, 1e-6
"""Largest error of a step, as a share of it: in a file times are whole us, and each node takes 1 ns at least."""
MOST_ROUNDED_NS = 10_000
"""Of all nodes of a kind: half a microsecond for each lane."""
KINDS = {"compute": "kernel", "memory": "copy"}


@cache
def job_of(path: Path) -> TracedJob:
    return traced_job(path)


def worst(path: Path, detail: Detail, lanes: Lanes) -> float:
    job = job_of(path)
    run = run_of(job, nodes_of(job, detail), lanes)
    assert run.runs.get_column("is_finished").to_list() == [True]
    step, end = errors_of(job, run)
    return max(step or 0.0, abs(end))


@pytest.mark.parametrize("detail", [Detail.FULL, Detail.DEVICE])
@pytest.mark.parametrize("name", JOBS)
def test_without_lanes_steps_take_their_measured_times(real_traces: Path, name: str, detail: Detail) -> None:
    assert worst(real_traces / name, detail, Lanes.UNLIMITED) < WITHOUT_LANES


@pytest.mark.parametrize("name", JOBS)
def test_on_the_lanes_of_astra_sim_merged_steps_take_their_measured_times(
    real_traces: Path, name: str
) -> None:
    assert worst(real_traces / name, Detail.MERGED, Lanes.ASTRA_SIM) < WITH_LANES


def test_streams_that_are_not_merged_take_longer_on_those_lanes(real_traces: Path) -> None:
    assert worst(real_traces / JOBS[0], Detail.DEVICE, Lanes.ASTRA_SIM) > 0.1


@pytest.mark.parametrize("detail", [Detail.FULL, Detail.DEVICE])
def test_a_job_on_cpus_takes_its_measured_time(detail: Detail) -> None:
    assert worst(DEMO, detail, Lanes.UNLIMITED) < WITHOUT_LANES


def test_a_merged_job_on_cpus_ends_when_it_did() -> None:
    """Collectives of gloo run at the same time on several threads: on one lane a step may end up to 4 % off."""
    job = job_of(DEMO)
    step, end = errors_of(job, run_of(job, nodes_of(job, Detail.MERGED), Lanes.ASTRA_SIM))
    assert step is not None
    assert step < 0.04
    assert abs(end) < WITH_LANES


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("name", JOBS)
def test_all_work_of_devices_is_there(real_traces: Path, name: str, detail: Detail) -> None:
    job = job_of(real_traces / name)
    linked = ranks_of(real_traces / name)
    for planned, rank in zip(job.plan.ranks, nodes_of(job, detail), strict=True):
        covered = pl.col("attributes").cast(pl.String).str.json_path_match("$.covered_ns").cast(pl.Int64)
        nodes = rank.nodes.with_columns(covered.fill_null(0).alias("covered_ns"))
        answer = kernels(linked[planned.source]).filter(pl.col("step").is_null())
        for kind, of_nodes in KINDS.items():
            expected = answer.filter(pl.col("kind") == kind).select(pl.col("count", "total_ns").sum()).row(0)
            own = nodes.filter(pl.col("kind").cast(pl.String) == of_nodes)
            lasts_ns = own.select(pl.col("duration_ns", "covered_ns").sum()).sum_horizontal()[0]
            assert (own.get_column("event_id").n_unique(), lasts_ns) == expected
            rounded_ns = own.select(pl.col("duration_micros").sum() * 1000 - pl.col("duration_ns").sum())
            assert abs(rounded_ns.item()) < MOST_ROUNDED_NS


@pytest.mark.parametrize("name", JOBS)
def test_a_merged_rank_computes_as_long_as_its_breakdown_says(real_traces: Path, name: str) -> None:
    job = job_of(real_traces / name)
    linked = ranks_of(real_traces / name)
    for planned, rank in zip(job.plan.ranks, nodes_of(job, Detail.MERGED), strict=True):
        whole = breakdown(linked[planned.source]).filter(pl.col("step").is_null())
        compute_ns, memory_ns, exposed_ns = whole.select(
            pl.col("compute_ns", "memory_ns", "exposed_memory_ns").sum()
        ).row(0)
        on_lane = rank.nodes.filter(pl.col("kind").cast(pl.String).is_in(["kernel", "copy"]))
        lane_ns = on_lane.get_column("duration_ns").sum()
        assert compute_ns + exposed_ns <= lane_ns <= compute_ns + memory_ns


@pytest.mark.parametrize("detail", list(Detail))
def test_all_communication_is_there(real_traces: Path, detail: Detail) -> None:
    job = job_of(real_traces / JOBS[0])
    members = job.ranks.members.join(
        job.ranks.collectives.select("collective", pl.col("type").alias("of_type")), on="collective"
    )
    for planned, rank in zip(job.plan.ranks, nodes_of(job, detail), strict=True):
        own = rank.nodes.filter(pl.col("type").cast(pl.String).str.starts_with("COMM"))
        expected = members.filter(pl.col("rank") == planned.source).group_by("of_type").len().sort("of_type")
        found = own.group_by(pl.col("collective").cast(pl.String)).len().sort("collective")
        assert found.rows() == expected.rows()
        size = pl.col("comm_size").sum()
        assert own.select(size).item() == job.plan.communication_of(planned.rank).select(size).item()


@cache
def ranks_of(path: Path) -> dict[int, LinkedTrace]:
    job = tracebraid.open(path)
    linked = [job] if isinstance(job, LinkedTrace) else list(job)
    return {rank.rank: rank for rank in linked}
