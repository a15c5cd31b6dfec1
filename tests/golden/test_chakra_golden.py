"""Chakra traces of real jobs are true, as their runs take the measured times, and complete, as the analyses count."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from benchmarks.chakra import TracedJob, errors_of, nodes_of, run_of, traced_job
from benchmarks.inputs import DEMO
from tests.captures import CAPTURES
from tests.chakra_nodes import check_nodes, communication_of
from tests.golden.graphs import JOBS as GRAPH_JOBS
from tests.golden.test_analyze_golden import FILES, linked_of
from tests.linked_ranks import linked_ranks
from tests.planted.chakra_plans import REPLICATE, SHRINK, disagreements, stuck_ranks
from tests.planted.communication_only import astra_sim_run, write_communication
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.chakra import ChakraHardware, Detail, Dialect, Lanes, MissingRanks
from tracebraid.chakra.exporting.rank_nodes import rank_nodes
from tracebraid.chakra.plan.job_plan import plan_job
from tracebraid.chakra.plan.world import JobPlan, PlanOptions
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.graph import EdgeKind
from tracebraid.model.linked_trace import LinkedTrace

JOBS = ("pairs/dlrm_v100_8rank", "kineto/sampled_2_of_128", "kineto/mi300x_decode_graph_launch.json.gz")
"""The last has a rank, works that overlap, and a launch of a graph."""
WITH_LANES, WITHOUT_LANES = 0.001, 1e-6
"""Largest error of a step, as a share of it: in a file times are whole us, and each node takes 1 ns at least."""
MOST_ROUNDED_NS = 10_000
"""Of all nodes of a kind: half a microsecond for each lane."""
KINDS = {"compute": "kernel", "memory": "copy"}


@cache
def job_of(path: Path, detail: Detail) -> TracedJob:
    return traced_job(path, single_lane=detail is Detail.MERGED)


def worst(path: Path, detail: Detail, lanes: Lanes) -> float:
    job = job_of(path, detail)
    run = run_of(job, nodes_of(job, detail), lanes)
    assert run.runs.get_column("is_finished").to_list() == [True]
    step, end = errors_of(job, run)
    return max(step or 0.0, abs(end))


@pytest.mark.full
@pytest.mark.parametrize("detail", [Detail.FULL, Detail.DEVICE])
@pytest.mark.parametrize("name", JOBS)
def test_without_lanes_steps_take_their_measured_times(real_traces: Path, name: str, detail: Detail) -> None:
    assert worst(real_traces / name, detail, Lanes.UNLIMITED) < WITHOUT_LANES


@pytest.mark.full
@pytest.mark.parametrize("name", JOBS)
def test_on_the_lanes_of_astra_sim_merged_steps_take_their_measured_times(
    real_traces: Path, name: str
) -> None:
    assert worst(real_traces / name, Detail.MERGED, Lanes.ASTRA_SIM) < WITH_LANES


@pytest.mark.full
def test_streams_that_are_not_merged_take_longer_on_those_lanes(real_traces: Path) -> None:
    assert worst(real_traces / JOBS[0], Detail.DEVICE, Lanes.ASTRA_SIM) > 0.1


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("detail", [Detail.FULL, Detail.DEVICE])
def test_a_job_on_cpus_takes_its_measured_time(detail: Detail) -> None:
    assert worst(DEMO, detail, Lanes.UNLIMITED) < WITHOUT_LANES


@pytest.mark.full
def test_a_merged_job_on_cpus_takes_its_measured_time() -> None:
    """Though collectives of gloo run at the same time on several threads, and the lane does one at a time."""
    assert worst(DEMO, Detail.MERGED, Lanes.UNLIMITED) < WITHOUT_LANES
    assert worst(DEMO, Detail.MERGED, Lanes.ASTRA_SIM) < WITH_LANES


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("name", JOBS)
def test_all_work_of_devices_is_there(real_traces: Path, name: str, detail: Detail) -> None:
    job = job_of(real_traces / name, detail)
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
    job = job_of(real_traces / name, Detail.MERGED)
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
    job = job_of(real_traces / JOBS[0], detail)
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


# --- Real ranks as nodes: replayed alone, each starting when what it waits for has ended, they  ------


def _checked(linked: LinkedTrace) -> int:
    graph = rank_graph(linked)
    communication = communication_of(graph)
    for detail in (Detail.FULL, Detail.DEVICE):
        rank = rank_nodes(graph, communication, detail)
        check_nodes(rank, graph)
        found = rank.nodes.filter(pl.col("stream").is_not_null(), pl.col("kind").cast(pl.String) != "delay")
        works = graph.edges.activity[graph.edges.kind == EdgeKind.DEVICE]
        assert found.height == len(np.unique(works))
    return communication.height


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_work_of_a_device_has_its_measured_times(name: str, real_traces: Path) -> None:
    _checked(linked_of(real_traces, name))


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", sorted(GRAPH_JOBS))
def test_ranks_of_jobs_have_their_measured_times(name: str, real_traces: Path) -> None:
    assert all(tracebraid.open(real_traces / name).each(_checked))


def test_the_demo_has_its_measured_times(demo: Path) -> None:
    assert list(tracebraid.open(demo).each(_checked)) == [9, 9]


# --- What of real jobs is simulated; where `ASTRA_SIM` names its binary, ASTRA-sim runs their c ------


REFUSE = MissingRanks.REFUSE
DEMO_JOB = Path(tracebraid.__file__).parent / "demo_traces" / "ddp_cpu_2rank"


def planned(path: Path, missing: MissingRanks, world_size: int | None = None) -> JobPlan:
    ranks = linked_ranks(tracebraid.open(path))
    return plan_job(str(path), ranks, PlanOptions(missing, Dialect.ASTRA_SIM, world_size))


def assert_it_runs(plan: JobPlan, folder: Path) -> None:
    assert stuck_ranks(plan) == []
    assert disagreements(plan) == []
    if "ASTRA_SIM" in os.environ:
        write_communication(plan, folder)
        done = astra_sim_run(folder)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ddp4", {"all_reduce as ALL_REDUCE": 4}),
        ("pipeline2", {"recv as COMM_RECV_NODE": 4, "send as COMM_SEND_NODE": 4}),
        ("pipeline4", {"recv as COMM_RECV_NODE": 12, "send as COMM_SEND_NODE": 12}),
        ("fsdp2", {"all_gather as ALL_GATHER": 6, "reduce_scatter as REDUCE_SCATTER": 4, "size raised": 2}),
        (
            "collectives4",
            {
                "all_gather as ALL_GATHER": 4,
                "all_reduce as ALL_REDUCE": 4,
                "all_to_all as ALL_TO_ALL": 4,
                "barrier as ALL_REDUCE": 4,
                "broadcast as BROADCAST": 4,
                "gather as ALL_GATHER": 4,
                "reduce as REDUCE_SCATTER": 4,
                "reduce_scatter as REDUCE_SCATTER": 4,
                "scatter as REDUCE_SCATTER": 4,
            },
        ),
    ],
)
def test_captures_over_gloo_are_simulated_whole(name: str, counts: dict[str, int], tmp_path: Path) -> None:
    plan = planned(CAPTURES / name, REFUSE)
    measured = {key: count for key, count in plan.counts.items() if key != "transfer not measured"}
    assert measured == counts
    assert plan.comm_groups() == {}
    assert_it_runs(plan, tmp_path)


def test_the_demo_as_two_ranks_and_as_sixteen(tmp_path: Path) -> None:
    assert planned(DEMO_JOB, REFUSE).counts == {"all_reduce as ALL_REDUCE": 18}
    plan = planned(DEMO_JOB, REPLICATE, 16)
    assert plan.counts == {"all_reduce as ALL_REDUCE": 144}
    assert_it_runs(plan, tmp_path)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(("missing", "ranks"), [(SHRINK, 4), (REPLICATE, 8)])
def test_half_of_dlrm_shrunk_and_replicated(
    real_traces: Path, missing: MissingRanks, ranks: int, tmp_path: Path
) -> None:
    plan = planned(real_traces / "pairs" / "dlrm_v100_8rank", missing)
    counts = {"all_reduce as ALL_REDUCE": 3 * ranks, "all_to_all as ALL_TO_ALL": 5 * ranks, "sizes differ": 1}
    assert plan.counts == counts
    assert (len(plan.ranks), plan.traced_world, plan.missing) == (ranks, 8, (4, 5, 6, 7))
    assert_it_runs(plan, tmp_path)


def test_one_rank_of_two_replicated(real_traces: Path, tmp_path: Path) -> None:
    plan = planned(real_traces / "kineto" / "a100_ddp_nccl_rank0of2.json.gz", REPLICATE)
    assert {name: count for name, count in plan.counts.items() if " as " in name} == {
        "all_reduce as ALL_REDUCE": 30,
        "broadcast as BROADCAST": 12,
    }
    first, second = (plan.communication_of(rank) for rank in (0, 1))
    assert first.equals(second)
    assert_it_runs(plan, tmp_path)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(("missing", "ranks"), [(SHRINK, 2), (REPLICATE, 128)])
def test_two_of_128_keep_all_that_they_communicate(
    real_traces: Path, missing: MissingRanks, ranks: int
) -> None:
    plan = planned(real_traces / "kineto" / "sampled_2_of_128", missing)
    assert (len(plan.ranks), plan.communication.height) == (ranks, 10 * ranks)
    assert plan.counts["all_gather as ALL_GATHER"] == 2 * ranks
    assert stuck_ranks(plan) == []
    assert disagreements(plan) == []


# --- Whole jobs as Chakra traces, on lanes of their own: the simulation ends when the job ended ------


_ERROR_NS = 20_000
"""Durations are written in whole us, and clocks of ranks are known to within some."""


def _check(source: Path, folder: Path) -> None:
    job = tracebraid.open(source)
    moments = tracebraid.dependency_graph(job).moments.time_ns
    measured_ns = int(moments.max() - moments.min())
    for detail in (Detail.FULL, Detail.DEVICE):
        options = tracebraid.chakra.ChakraOptions(detail, missing=MissingRanks.SHRINK, allow_alone=True)
        out = folder / detail.value
        tracebraid.export(job, out, "chakra", tracebraid.ExportOptions(chakra=options))
        found = tracebraid.chakra.run(out, hardware=ChakraHardware(lanes="unlimited"))
        assert found.waits.is_empty()
        assert abs(found.runs.get_column("end_ns").item() - measured_ns) <= _ERROR_NS


@pytest.mark.full
def test_the_demo_ends_when_it_did(demo: Path, tmp_path: Path) -> None:
    _check(demo, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", ["pairs/dlrm_v100_8rank", "kineto/sampled_2_of_128"])
def test_real_jobs_end_when_they_did(name: str, real_traces: Path, tmp_path: Path) -> None:
    _check(real_traces / name, tmp_path)
