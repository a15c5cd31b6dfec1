"""Plans of jobs: collectives and messages of all ranks, groups, worlds of another size, and one order for all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from tests.planted.chakra_plans import REPLICATE, SHRINK, disagreements, linked_job, plan_of, stuck_ranks
from tests.planted.planned_jobs import codes, job_of, send, with_bytes
from tests.unit.linking.ranks.made_members import MadeJob
from tracebraid.chakra import Dialect
from tracebraid.chakra.plan.consistent_order import OrderedRows, Rows, consistent_order
from tracebraid.chakra.plan.job_plan import ASTRA_SIM_LEAST_BYTES, MAPPINGS, plan_job
from tracebraid.chakra.plan.world import PlanOptions, group_image
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.finding import AloneReason
from tracebraid.model.finding_code import FindingCode

_T = CollectiveType


def test_every_type_has_one_row_in_the_table() -> None:
    assert [row.type for row in MAPPINGS] == list(CollectiveType)


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("alone", "size", "matched", "is_most"),
    [(3, 512, 1, True), (2, 512, 1, False), (1, 2**20, 9, True), (0, 512, 1, False)],
    ids=["count", "half", "bytes", "none"],
)
def test_a_plan_says_whether_most_communication_is_alone(
    alone: int, size: int, matched: int, is_most: bool
) -> None:
    """By count or by bytes: sends that nobody received, beside collectives of two ranks."""
    job = job_of(*["all_reduce"] * matched, world=2)
    for _ in range(alone):
        send(job, 0, 1, size)
        job.rows = [row for row in job.rows if row["type"] != "recv"]
    assert (plan_of(job).mostly_alone is not None) is is_most


def test_a_shrunk_world_and_groups_of_one_are_not_mostly_alone() -> None:
    job = MadeJob(4)
    send(job, 0, 1)
    send(job, 1, 3)
    send(job, 0, 3)
    assert plan_of(job, [0, 1], SHRINK).mostly_alone is None
    job = MadeJob(2)
    for rank in (0, 1):
        job.collective("all_reduce", 512, ranks=(rank,))
    assert plan_of(job).mostly_alone is None


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
    plan = plan_job("job", open_ranks, PlanOptions())
    assert plan.counts["broadcast as BROADCAST"] == 8
    assert stuck_ranks(plan) == []
    # Of a group whose ranks no trace lists, these may be of several groups.
    unknown = members.with_columns(pl.lit(None).cast(pl.Categorical).alias("group_ranks"))
    plan = plan_job("job", replace(ranks, members=unknown), PlanOptions())
    assert plan.counts["alone.members missing"] == 8
    assert stuck_ranks(plan) == []


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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_the_only_rank_of_a_job_is_no_news() -> None:
    assert codes(plan_of(MadeJob(1), dialect=Dialect.CHAKRA)) == set()


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


@pytest.mark.parametrize(
    ("group", "rank", "world", "expected"),
    [
        pytest.param([0, 1], 3, 8, (2, 3), id="tensor parallel pairs"),
        pytest.param([0, 2, 4, 6], 1, 8, (1, 3, 5, 7), id="data parallel across pairs"),
        pytest.param([0, 2, 4, 6], 4, 8, (0, 2, 4, 6), id="it is in the group"),
        pytest.param([0, 4], 7, 16, (3, 7), id="distance four"),
        pytest.param([0, 4], 9, 16, (9, 13), id="distance four, the next block"),
        pytest.param([0, 1, 4, 5], 13, 16, (8, 9, 12, 13), id="no single distance: blocks"),
        pytest.param([0, 1, 4, 5], 11, 16, None, id="a place of a block that the pattern lacks"),
        pytest.param([3], 5, 8, (5,), id="a group of one"),
        pytest.param([0, 1, 2], 5, 8, (4, 5, 6), id="three of each four"),
        pytest.param([0, 1, 2], 3, 8, None, id="the fourth of four"),
        pytest.param([1, 2], 0, 4, None, id="pairs that begin at an odd rank"),
        pytest.param([1, 0], 2, 4, (3, 2), id="in falling order, as a block"),
    ],
)
def test_the_pattern_of_a_group_fills_the_world(
    group: list[int], rank: int, world: int, expected: tuple[int, ...] | None
) -> None:
    assert group_image(group, rank, (world, world)) == expected


def test_all_ranks_remain_all_ranks_of_a_larger_world() -> None:
    assert group_image([0, 1], 5, (2, 8)) == tuple(range(8))


def test_a_known_group_that_is_the_same_one_moved_has_the_first_word() -> None:
    assert group_image([0, 1, 2], 5, (8, 8), [(0, 1, 2), (3, 4, 5), (5, 6)]) == (3, 4, 5)


def test_a_known_group_of_another_pattern_or_that_shares_ranks_is_none() -> None:
    assert group_image([0, 1, 2], 3, (8, 8), [(1, 3, 5), (2, 3, 4)]) is None


def test_images_of_all_ranks_part_the_world() -> None:
    for group in ([0, 1], [0, 2], [0, 4], [0, 1, 2, 3], [0, 2, 4, 6]):
        images = {rank: group_image(group, rank, (8, 8)) for rank in range(8)}
        assert all(
            image is not None and images[other] == image for image in images.values() for other in image or ()
        )


class Part(NamedTuple):
    rank: int
    item: int
    start: int
    end: int
    stream: int = -1


def ordered(*parts: Part, pairs: tuple[tuple[int, int], ...] = ()) -> OrderedRows:
    streams = [part.stream if part.stream >= 0 else 100 + place for place, part in enumerate(parts)]
    columns = [
        np.array(values, dtype=np.int64)
        for values in (
            [part.rank for part in parts],
            [part.item for part in parts],
            streams,
            [part.start for part in parts],
            [part.end for part in parts],
            [first for first, _ in pairs],
            [second for _, second in pairs],
        )
    ]
    return consistent_order(Rows(*columns))


def test_collectives_come_in_the_order_of_their_last_arrivals() -> None:
    found = ordered(
        Part(0, 1, 0, 90_000),
        Part(1, 1, 80_000, 90_000),
        Part(0, 0, 10_000, 50_000),
        Part(1, 0, 5_000, 50_000),
    )
    assert found.order.tolist() == [1, 1, 0, 0]
    assert not found.broken.any()


def test_what_ended_before_on_a_rank_comes_first_whatever_other_clocks_say() -> None:
    # By the clock of rank 2, item 0 arrives last of all; on rank 0 it ended before item 1 began.
    found = ordered(
        Part(0, 0, 0, 10_000),
        Part(2, 0, 500_000, 510_000),
        Part(0, 1, 20_000, 30_000),
        Part(1, 1, 20_000, 30_000),
    )
    assert found.order.tolist() == [0, 0, 1, 1]
    assert not found.broken.any()


def test_ends_that_rounding_put_behind_a_start_are_before_it() -> None:
    found = ordered(Part(0, 0, 0, 10_400), Part(1, 0, 900_000, 910_000), Part(0, 1, 10_000, 20_000))
    assert found.order.tolist() == [0, 0, 1]


def test_what_follows_on_a_stream_comes_later_though_its_times_overlap() -> None:
    found = ordered(Part(0, 0, 0, 15_000, 7), Part(1, 0, 900_000, 910_000, 7), Part(0, 1, 10_000, 20_000, 7))
    assert found.order.tolist() == [0, 0, 1]


def test_items_that_wait_for_each_other_in_a_circle_are_broken_up_and_no_others() -> None:
    found = ordered(
        *(Part(0, 0, 0, 10), Part(0, 1, 20, 30), Part(0, 2, 40, 50)),
        *(Part(1, 1, 0, 10), Part(1, 0, 20, 30), Part(1, 2, 40, 50)),
    )
    assert sorted(set(np.flatnonzero(found.broken))) in ([0, 4], [1, 3])
    order = found.order.tolist()
    assert order[:3] == sorted(order[:3])
    assert order[3:] == sorted(order[3:])
    assert order[2] == order[5]


def test_a_send_comes_before_its_receive_and_waits_for_nothing_of_it() -> None:
    # Both ranks send first and receive then: with sends that end at once there is no circle.
    found = ordered(
        *(Part(0, 0, 0, 10), Part(0, 3, 20, 30)),
        *(Part(1, 2, 0, 10), Part(1, 1, 20, 30)),
        pairs=((0, 1), (2, 3)),
    )
    assert not found.broken.any()
    send, other_receive, other_send, receive = found.order.tolist()
    assert send < receive
    assert other_send < other_receive
    assert send < other_receive
    assert other_send < receive


def test_receives_before_the_sends_that_they_wait_for_are_broken_up_with_them() -> None:
    found = ordered(
        *(Part(0, 1, 0, 10), Part(0, 2, 20, 30)),
        *(Part(1, 3, 0, 10), Part(1, 0, 20, 30)),
        pairs=((0, 1), (2, 3)),
    )
    assert int(found.broken.sum()) == 2


def test_nothing_has_an_order() -> None:
    assert not len(ordered().order)
