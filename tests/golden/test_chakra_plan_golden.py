"""What of real jobs is simulated; where `ASTRA_SIM` names its binary, ASTRA-sim runs their communication to the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tracebraid
from tests.captures import CAPTURES
from tests.unit.exporters.chakra.communication_only import astra_sim_run, write_communication
from tests.unit.exporters.chakra.planned import REPLICATE, SHRINK, disagreements, stuck_ranks
from tracebraid.api.chakra.planning import plan_of_ranks
from tracebraid.api.job.whole_job import linked_ranks
from tracebraid.model.chakra.codes import Dialect, MissingRanks
from tracebraid.model.chakra.job_plan import JobPlan, PlanOptions

REFUSE = MissingRanks.REFUSE
DEMO = Path(tracebraid.__file__).parent / "demo_traces" / "ddp_cpu_2rank"


def planned(path: Path, missing: MissingRanks, world_size: int | None = None) -> JobPlan:
    ranks = linked_ranks(tracebraid.open(path))
    return plan_of_ranks(str(path), ranks, PlanOptions(missing, Dialect.ASTRA_SIM, world_size))


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
        ("fsdp2", {"all_gather as ALL_GATHER": 6, "all_reduce as ALL_REDUCE": 4, "size raised": 2}),
        (
            "collectives4",
            {
                "all_gather as ALL_GATHER": 4,
                "all_reduce as ALL_REDUCE": 8,
                "all_to_all as ALL_TO_ALL": 4,
                "barrier as ALL_REDUCE": 4,
                "broadcast as BROADCAST": 4,
                "gather as ALL_GATHER": 4,
                "reduce as REDUCE_SCATTER": 4,
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
    assert planned(DEMO, REFUSE).counts == {"all_reduce as ALL_REDUCE": 18}
    plan = planned(DEMO, REPLICATE, 16)
    assert plan.counts == {"all_reduce as ALL_REDUCE": 144}
    assert_it_runs(plan, tmp_path)


@pytest.mark.parametrize(("missing", "ranks"), [(SHRINK, 4), (REPLICATE, 8)])
def test_half_of_dlrm_shrunk_and_replicated(
    real_traces: Path, missing: MissingRanks, ranks: int, tmp_path: Path
) -> None:
    plan = planned(real_traces / "pairs" / "dlrm_v100_8rank", missing)
    assert plan.counts == {"all_reduce as ALL_REDUCE": 3 * ranks, "all_to_all as ALL_TO_ALL": 5 * ranks}
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


@pytest.mark.parametrize(("missing", "ranks"), [(SHRINK, 2), (REPLICATE, 128)])
def test_two_of_128_keep_all_that_they_communicate(
    real_traces: Path, missing: MissingRanks, ranks: int
) -> None:
    plan = planned(real_traces / "kineto" / "sampled_2_of_128", missing)
    assert (len(plan.ranks), plan.communication.height) == (ranks, 10 * ranks)
    assert plan.counts["all_gather as ALL_GATHER"] == 2 * ranks
    assert stuck_ranks(plan) == []
    assert disagreements(plan) == []
