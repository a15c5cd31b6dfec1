"""Which ranks and groups of a job are simulated."""

from __future__ import annotations

import json

import pytest

from tests.unit.exporters.chakra.made_plans import codes, job_of, send
from tests.unit.exporters.chakra.planned import (
    REPLICATE,
    SHRINK,
    disagreements,
    linked_job,
    plan_of,
    stuck_ranks,
)
from tests.unit.linking.ranks.made_members import MadeJob
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.chakra.codes import Dialect
from tracebraid.model.finding_code import FindingCode


def test_groups_are_numbered_from_1_and_the_world_beside_others_too() -> None:
    """ASTRA-sim waits for ever where the world has no number and ranks differ in what they issue before."""
    job = MadeJob(4)
    for _ in range(3):
        job.collective(group="tp0", ranks=[0, 1])
        job.collective(group="tp1", ranks=[2, 3])
        job.collective()
    plan = plan_of(job)
    assert plan.comm_groups() == {"1": [0, 1], "2": [0, 1, 2, 3], "3": [2, 3]}
    assert [(group.number, group.name) for group in plan.groups] == [(1, "tp0"), (2, "0"), (3, "tp1")]
    assert stuck_ranks(plan) == []
    json.dumps(plan.facts())


def test_two_groups_of_the_same_ranks_stay_two() -> None:
    job = MadeJob(4, communicators=True)
    for _ in range(3):
        job.collective(group="a", ranks=[0, 1])
        job.collective("all_gather", group="b", ranks=[0, 1])
    assert len(plan_of(job).comm_groups()) == 2


def test_a_group_of_one_rank_communicates_alone() -> None:
    job = job_of("all_reduce")
    job.collective(group="own", ranks=[2])
    plan = plan_of(job)
    assert plan.counts["alone.single rank"] == 1
    assert plan.comm_groups() == {"1": [2]}
    assert codes(plan) == set()
    assert stuck_ranks(plan) == []


# --- missing ranks --------------------------------------------------------------------------------


def test_missing_ranks_are_refused_by_name() -> None:
    with pytest.raises(
        InputError, match=r"of 8 ranks 4 have no trace: 4-7.*--missing replicate.*--missing shrink"
    ):
        plan_of(job_of("all_reduce", world=8), range(4))


def test_a_shrunk_world_has_dense_ranks_and_smaller_groups() -> None:
    job = MadeJob(8)
    for _ in range(3):
        job.collective(group="even", ranks=[0, 2, 4, 6])
        job.collective(group="odd", ranks=[1, 3, 5, 7])
        job.collective()
    plan = plan_of(job, [2, 3, 6], SHRINK)
    assert [(rank.rank, rank.world_rank, rank.source) for rank in plan.ranks] == [
        (0, 2, 2),
        (1, 3, 3),
        (2, 6, 6),
    ]
    assert plan.missing == (0, 1, 4, 5, 7)
    assert plan.comm_groups() == {"1": [0, 2], "2": [0, 1, 2], "3": [1]}
    assert plan.counts["alone.single rank"] == 3
    assert codes(plan) == {FindingCode.CHAKRA_WORLD_SHRUNK}
    assert stuck_ranks(plan) == []


def test_a_missing_rank_does_what_another_does_in_groups_of_its_own() -> None:
    job = MadeJob(8)
    for _ in range(3):
        for first in range(0, 8, 2):
            job.collective("all_gather", group=f"tp{first}", ranks=[first, first + 1])
        for first in range(2):
            job.collective(group=f"dp{first}", ranks=list(range(first, 8, 2)))
    whole = plan_of(job)
    for present in ([0], [0, 1], [0, 1, 2, 3], [5]):
        plan = plan_of(job, present, REPLICATE)
        assert sorted(plan.comm_groups().values()) == sorted(whole.comm_groups().values()), present
        assert plan.communication.height == whole.communication.height
        assert not [name for name in plan.counts if name.startswith("alone")], present
        assert disagreements(plan) == []
        assert stuck_ranks(plan) == []


def test_a_whole_pipeline_is_replicated_with_its_sends() -> None:
    job = MadeJob(4)
    for _ in range(2):
        for first in (0, 2):
            send(job, first, first + 1, group=(first, first + 1))
        job.collective(group="dp0", ranks=[0, 2])
    plan = plan_of(job, [0, 1], REPLICATE)
    pairs = (
        plan.communication.filter(plan.communication["type"] == "COMM_SEND_NODE")
        .select("rank", "comm_dst")
        .rows()
    )
    assert pairs == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert stuck_ranks(plan) == []


def test_a_stage_of_a_pipeline_is_no_copy_of_another() -> None:
    job = MadeJob(4)
    send(job, 0, 1)
    with pytest.raises(
        InputError, match=r"rank 2 is missing and cannot replicate another: rank 0 sends to or receives"
    ):
        plan_of(job, [0, 1], REPLICATE)


def test_groups_that_do_not_fill_the_world_are_not_guessed() -> None:
    job = MadeJob(8)
    job.collective(group="three", ranks=[0, 1, 2])
    with pytest.raises(
        InputError, match=r"rank 3 is missing and cannot replicate another: which ranks are in its group"
    ):
        plan_of(job, [0, 1, 2], REPLICATE)


def test_a_world_may_be_larger_than_the_traces() -> None:
    job = job_of("all_reduce", world=2)
    plan = plan_of(job, missing=REPLICATE, world_size=64)
    assert len(plan.ranks) == 64
    assert plan.counts == {"all_reduce as ALL_REDUCE": 64}
    assert stuck_ranks(plan) == []
    with pytest.raises(ArgumentError, match="a world of 1 ranks"):
        plan_of(job, missing=REPLICATE, world_size=1)
    with pytest.raises(ArgumentError, match="--missing replicate"):
        plan_of(job, world_size=8)


def test_one_rank_is_too_few_for_astra_sim_and_is_said_of_others() -> None:
    job = job_of("all_reduce")
    with pytest.raises(InputError, match=r"only rank 1 is simulated.*--missing replicate"):
        plan_of(job, [1], SHRINK)
    plan = plan_of(job, [1], SHRINK, Dialect.CHAKRA)
    assert codes(plan) == {FindingCode.CHAKRA_WORLD_SHRUNK, FindingCode.CHAKRA_SINGLE_RANK}
    assert plan.communication["pg_name"].to_list() == [None]


def test_a_job_without_communication_says_so() -> None:
    plan = plan_of(MadeJob(2))
    assert plan.communication.is_empty()
    assert codes(plan) == {FindingCode.CHAKRA_NO_COMMUNICATION}


def test_only_the_chosen_steps_are_simulated() -> None:
    job = MadeJob(2)
    for step in range(4):
        job.collective(step=step)
    plan = plan_of(job, steps=("ProfilerStep#1", "ProfilerStep#2"))
    assert plan.communication.height == 4
    assert stuck_ranks(plan) == []


def test_the_metadata_is_the_same_for_all_ranks_and_of_plain_values() -> None:
    plan = plan_of(job_of("all_reduce", world=8), range(4), REPLICATE)
    assert dict(plan.attributes()) == {
        "missing_ranks": "replicate",
        "dialect": "astra-sim",
        "traced_world_size": 8,
        "world_size": 8,
        "replicated_ranks": 4,
        "communication.all_reduce as ALL_REDUCE": 8,
    }
    assert linked_job(job_of("all_reduce")).ranks.height == 4
