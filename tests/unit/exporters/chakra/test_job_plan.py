"""What the communication of a job becomes in a plan of what is simulated."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.unit.exporters.chakra.made_plans import codes, job_of, send, with_bytes
from tests.unit.exporters.chakra.planned import (
    SHRINK,
    disagreements,
    linked_job,
    plan_of,
    stuck_ranks,
)
from tests.unit.linking.ranks.made_members import MadeJob
from tracebraid.api.chakra.planning import plan_of_ranks
from tracebraid.exporters.chakra.plan.communication_mapping import ASTRA_SIM_LEAST_BYTES, MAPPINGS
from tracebraid.model.chakra.codes import AloneReason, Dialect
from tracebraid.model.chakra.job_plan import PlanOptions
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.finding_code import FindingCode

_T = CollectiveType


def test_every_type_has_one_row_in_the_table() -> None:
    assert [row.type for row in MAPPINGS] == list(CollectiveType)


@pytest.mark.parametrize(
    ("kind", "given", "got", "chakra", "astra_sim", "size"),
    [
        (_T.ALL_REDUCE, 4096, 4096, "ALL_REDUCE", "ALL_REDUCE", 4096),
        (_T.ALL_GATHER, 4096, 16384, "ALL_GATHER", "ALL_GATHER", 4096),
        (_T.ALL_GATHER, None, 16384, "ALL_GATHER", "ALL_GATHER", 4096),
        (_T.REDUCE_SCATTER, 16384, 4096, "REDUCE_SCATTER", "REDUCE_SCATTER", 16384),
        (_T.REDUCE_SCATTER, None, 4096, "REDUCE_SCATTER", "REDUCE_SCATTER", 16384),
        (_T.ALL_TO_ALL, 4096, 8192, "ALL_TO_ALL", "ALL_TO_ALL", 8192),
        (_T.BROADCAST, 4096, 4096, "BROADCAST", "BROADCAST", 4096),
        (_T.REDUCE, 4096, 4096, "REDUCE", "REDUCE_SCATTER", 4096),
        (_T.GATHER, 4096, None, "GATHER", "ALL_GATHER", 4096),
        (_T.SCATTER, None, 4096, "SCATTER", "REDUCE_SCATTER", 16384),
        (_T.BARRIER, None, None, "BARRIER", "ALL_REDUCE", None),
    ],
)
def test_a_collective_becomes_what_the_table_says(
    kind: CollectiveType, given: int | None, got: int | None, chakra: str, astra_sim: str, size: int | None
) -> None:
    job = with_bytes(job_of(kind.value), given, got)
    for dialect, comm_type, least in (
        (Dialect.CHAKRA, chakra, 1),
        (Dialect.ASTRA_SIM, astra_sim, ASTRA_SIM_LEAST_BYTES),
    ):
        plan = plan_of(job, dialect=dialect)
        row = plan.communication_of(3).row(0, named=True)
        assert (row["type"], row["comm_type"], row["comm_size"]) == (
            "COMM_COLL_NODE",
            comm_type,
            size or least,
        )
        assert (row["collective"], row["pg_name"]) == (kind.value, None)
        assert plan.counts == {f"{kind.value} as {comm_type}": 4}
        assert stuck_ranks(plan) == []


def test_sizes_that_differ_between_ranks_become_the_largest_and_are_counted() -> None:
    job = job_of("all_to_all")
    job.rows[2]["in_bytes"] = 9000
    plan = plan_of(job)
    assert set(plan.communication["comm_size"]) == {9000}
    assert plan.counts["sizes differ"] == 1
    assert codes(plan) == {FindingCode.CHAKRA_SIZES_DIFFER}
    assert stuck_ranks(plan) == []


def test_unknown_sizes_are_the_least_and_small_ones_are_raised_and_both_counted() -> None:
    plan = plan_of(with_bytes(job_of("all_reduce"), None, None))
    assert set(plan.communication["comm_size"]) == {ASTRA_SIM_LEAST_BYTES}
    assert codes(plan) == {FindingCode.CHAKRA_SIZE_UNKNOWN}
    plan = plan_of(job_of("all_gather", size=4))
    assert set(plan.communication["comm_size"]) == {ASTRA_SIM_LEAST_BYTES}
    assert plan.counts["size raised"] == 4


def test_the_transfer_is_from_the_last_arrival_to_the_own_end() -> None:
    job = job_of("all_reduce")
    base = job.now
    for rank, row in enumerate(job.rows):
        row["start_ns"], row["end_ns"] = base + rank * 10_000, base + 90_000
    assert plan_of(job).communication["transfer_ns"].to_list() == [60_000] * 4


# --- sends and receives ---------------------------------------------------------------------------


def test_a_send_and_its_receive_agree_on_ranks_tag_and_size() -> None:
    job = MadeJob(4)
    for size in (512, 700):
        send(job, 0, 1, size)
        send(job, 1, 2, size)
    plan = plan_of(job)
    rows = plan.communication.select("rank", "type", "comm_src", "comm_dst", "comm_tag", "comm_size").rows()
    assert rows[:2] == [(0, "COMM_SEND_NODE", None, 1, 0, 512), (0, "COMM_SEND_NODE", None, 1, 1, 700)]
    assert (1, "COMM_RECV_NODE", 0, None, 1, 700) in rows
    assert stuck_ranks(plan) == []
    assert plan.groups == ()


def test_a_send_whose_receive_nobody_recorded_lasts_as_measured_on_its_rank_alone() -> None:
    job = MadeJob(4)
    send(job, 0, 1)
    job.rows = [row for row in job.rows if row["rank"] == 0]
    plan = plan_of(job)
    row = plan.communication.row(0, named=True)
    assert (row["type"], row["comm_type"], row["pg_name"]) == ("COMM_COLL_NODE", "BROADCAST", "1")
    assert plan.comm_groups() == {"1": [0]}
    assert row["transfer_ns"] == job.rows[0]["end_ns"] - job.rows[0]["start_ns"]  # type: ignore[operator]
    assert plan.counts == {f"alone.{AloneReason.PEER_MISSING.value}": 1}
    assert stuck_ranks(plan) == []


def test_sends_to_a_rank_without_a_trace_are_alone_when_the_world_shrinks() -> None:
    job = MadeJob(4)
    send(job, 0, 1)
    send(job, 1, 3)
    plan = plan_of(job, [0, 1], SHRINK)
    assert plan.counts == {"alone.peer missing": 1, "recv as COMM_RECV_NODE": 1, "send as COMM_SEND_NODE": 1}
    assert stuck_ranks(plan) == []


def test_sends_of_the_host_meet_by_their_order_in_each_step() -> None:
    job = MadeJob(2)
    for _ in range(3):
        send(job, 0, 1)
        send(job, 1, 0)
    for row in job.rows:
        row |= {"device": "cpu", "stream": "1", "step": "ProfilerStep#1"}
    plan = plan_of(job)
    assert plan.counts == {"recv as COMM_RECV_NODE": 6, "send as COMM_SEND_NODE": 6}
    assert stuck_ranks(plan) == []
    job.rows[-1]["step"] = "ProfilerStep#2"
    plan = plan_of(job)
    assert plan.counts["alone.peer missing"] == 6


def test_the_host_may_receive_before_it_sends_on_one_thread() -> None:
    job = MadeJob(2)
    send(job, 0, 1)
    send(job, 1, 0)
    for row in job.rows:
        begun = job.begin if row["type"] == "recv" else job.begin + 2_000
        row |= {"device": "cpu", "stream": "1", "start_ns": begun, "end_ns": begun + 50_000}
    plan = plan_of(job)
    assert plan.counts == {"recv as COMM_RECV_NODE": 2, "send as COMM_SEND_NODE": 2}
    assert stuck_ranks(plan) == []


def test_exchanges_of_a_whole_group_become_an_all_to_all_of_it() -> None:
    plan = plan_of(job_of("send_recv", "send_recv"))
    assert plan.counts == {"send_recv as ALL_TO_ALL": 8, "transfer not measured": 8}
    assert stuck_ranks(plan) == []


def test_exchanges_of_which_ranks_have_unequal_numbers_are_alone() -> None:
    job = job_of("send_recv", "send_recv")
    del job.rows[0]
    plan = plan_of(job)
    assert plan.counts == {"alone.members missing": 7}


# --- what ranks disagree on -----------------------------------------------------------------------


def test_what_a_rank_did_not_record_is_alone_on_the_others() -> None:
    job = job_of("all_reduce", "all_gather", "all_reduce")
    del job.rows[-1]
    plan = plan_of(job)
    assert plan.counts["alone.members missing"] == 3
    assert disagreements(plan) == []
    assert stuck_ranks(plan) == []


def test_a_type_that_differs_between_ranks_is_never_done_together() -> None:
    job = MadeJob(4, sequences=True, communicators=True)
    job.collective("all_reduce")
    job.collective("all_reduce")
    job.rows[5]["type"] = "broadcast"
    plan = plan_of(job)
    assert sum(count for name, count in plan.counts.items() if name.startswith("alone.")) == 4
    assert stuck_ranks(plan) == []


def test_a_kernel_of_unknown_type_is_kept_alone() -> None:
    job = MadeJob(2, sequences=True, communicators=True)
    job.collective("all_reduce")
    for row in job.rows:
        row["type"] = None
    plan = plan_of(job)
    assert plan.counts == {f"alone.{AloneReason.UNKNOWN_TYPE.value}": 2}
    assert plan.communication["collective"].to_list() == ["all_reduce"] * 2


def test_what_matching_left_open_meets_by_order_where_all_ranks_have_equally_many() -> None:
    ranks = linked_job(job_of("all_reduce", "broadcast", "broadcast"))
    is_open = (pl.col("type") == "broadcast") & (pl.col("rank") == 3)
    members = ranks.members.with_columns(pl.when(~is_open).then("collective").alias("collective"))
    open_ranks = replace(ranks, members=members)
    plan = plan_of_ranks("job", open_ranks, PlanOptions())
    assert plan.counts["broadcast as BROADCAST"] == 8
    assert stuck_ranks(plan) == []
    # Of a group whose ranks no trace lists, these may be of several groups.
    unknown = members.with_columns(pl.lit(None).cast(pl.Categorical).alias("group_ranks"))
    plan = plan_of_ranks("job", replace(ranks, members=unknown), PlanOptions())
    assert plan.counts["alone.members missing"] == 8
    assert stuck_ranks(plan) == []


# --- groups ---------------------------------------------------------------------------------------
