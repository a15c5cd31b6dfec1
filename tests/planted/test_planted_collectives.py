"""Arrivals, transfers and waits of planned jobs, on true clocks, to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from tests.planted import Cause, Host, PlannedJob
from tests.planted.hosts import BASE_NS
from tests.planted.wide_jobs import WidePlan, wide_job
from tracebraid.analysis.collectives.transfers import collective_ranks, collective_totals, collectives
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.collectives import ClockMethod, MatchMethod, TransferMethod
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import CLOCKS, MATCHED_COLLECTIVES

HOSTS = (Host("a", ahead_ns=77), Host("b", ahead_ns=-5_000_000, drift_ppm=20.0))
"""Their clocks are 5 ms apart."""


def planned(ranks: int, hosts: Sequence[Host] = (Host(),)) -> PlannedJob:
    job = PlannedJob(ranks, hosts)
    late = ranks - 1
    half = job.group("half", sorted({0, ranks // 2, late}))
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000)
            job.delay(late, Cause.KERNEL, 400_000)
            job.collective("allreduce", transfer=50_000, skew={0: 2_000}, nelems=1 << 20)
            job.delay(0, Cause.SLEEP, 30_000)
            job.collective("_allgather_base", half, transfer=7_000)
            job.collective("all_to_all", transfer=9_000, lost=(1,) if number == 2 else ())
    return job


def on_true_clocks(job: PlannedJob, missing: Sequence[int] = ()) -> LinkedRanks:
    """The ranks of a planned job, matched as it was planned, on true time."""
    parts = job.parts(missing)
    members = pl.concat(part.members for part in parts)
    number = {
        (rank, event): true.number for true in job.collectives for rank, event in true.event_ids.items()
    }
    keys = members.select("rank", "event_id").rows()
    members = members.with_columns(
        pl.Series("collective", [number[key] for key in keys], dtype=pl.Int64),
        *(
            pl.Series(
                name,
                [
                    job.host_of[rank].true_ns(own)
                    for rank, own in zip(members["rank"], members[name], strict=True)
                ],
            )
            for name in ("start_ns", "end_ns")
        ),
    )
    matched = MATCHED_COLLECTIVES.conform(_matched(job, missing), fill_missing=True)
    clocks = pl.DataFrame(
        {
            "rank": [part.facts.item(0, "rank") for part in parts],
            "host": [part.facts.item(0, "host") for part in parts],
        }
    ).with_columns(
        pl.lit(ClockMethod.COLLECTIVES.value).alias("method"),
        *(pl.lit(0).alias(name) for name in ("offset_ns", "offset_low_ns", "offset_high_ns")),
    )
    facts = pl.concat(part.facts for part in parts)
    return LinkedRanks(facts, CLOCKS.conform(clocks, fill_missing=True), members, matched)


def _matched(job: PlannedJob, missing: Sequence[int]) -> pl.DataFrame:
    rows = []
    for true in job.collectives:
        there = sorted(rank for rank in true.event_ids if rank not in missing)
        rows.append(
            {
                "collective": true.number,
                "group": true.group,
                "type": true.type,
                "group_size": len(true.ranks),
                "ranks": there,
                "missing": [rank for rank in true.ranks if rank not in there],
                "method": MatchMethod.COMMUNICATOR_SEQUENCE.value,
                "confidence": 1.0,
            }
        )
    return pl.DataFrame(rows)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(("ranks", "hosts"), [(2, (Host(),)), (4, HOSTS), (64, HOSTS)])
def test_arrivals_transfers_and_waits_are_what_was_planted(ranks: int, hosts: Sequence[Host]) -> None:
    job = planned(ranks, hosts)
    linked = on_true_clocks(job)
    rounding = 0 if hosts[0] == Host() else 2
    found = collective_ranks(linked)
    # A clock that drifts is rounded to whole ns, there and back.
    for row in found.iter_rows(named=True):
        true, rank = job.collectives[row["collective"]], row["rank"]
        if 1 in true.ranks and 1 not in true.event_ids:
            continue
        assert abs(row["arrival_ns"] - BASE_NS - true.arrival[rank]) <= rounding
        assert abs(row["waiting_ns"] - true.waits[rank]) <= rounding
        assert abs(row["transfer_ns"] - true.transfer_ns) <= rounding
        assert row["transfer_method"] == TransferMethod.LAST_ARRIVAL.value
        assert not row["is_bound"]
        if row["waiting_ns"] > rounding:
            assert row["waited_for"] == true.late
    for row in collectives(linked).iter_rows(named=True):
        true = job.collectives[row["collective"]]
        if not row["is_bound"]:
            assert abs(row["transfer_ns"] - true.transfer_ns) <= rounding
            assert row["last_rank"] == true.late or rounding
            assert abs(row["waiting_ns"] - sum(true.waits.values())) <= rounding * ranks


def test_a_job_of_a_host_is_answered_exactly_from_its_traces() -> None:
    """Through matching and clocks, with sends, receives and a collective that a rank did not record."""
    job = planned(4)
    with job.step(4):
        job.compute(50_000)
        job.delay(0, Cause.KERNEL, 80_000)
        job.send(0, 2, transfer=12_000)
        job.delay(3, Cause.KERNEL, 80_000)
        job.send(1, 3, transfer=13_000)
    found = collective_ranks(link_ranks(job.parts()))
    events = {(rank, event): true for true in job.collectives for rank, event in true.event_ids.items()}
    assert found.height == len(events)
    for row in found.iter_rows(named=True):
        true, rank = events[row["rank"], row["event_id"]], row["rank"]
        whole = len(true.event_ids) == len(true.ranks)
        assert row["is_bound"] == (not whole)
        # A sender before its receiver only rests.
        early = row["rest_ns"] if row["type"] == "send" else row["waiting_ns"]
        assert early == true.waits[rank] or not whole
        assert row["transfer_ns"] == true.transfer_ns or not whole
    pairs = found.filter(pl.col("type").is_in(["send", "recv"]) & (pl.col("waiting_ns") > 0))
    assert pairs.select("rank", "waited_for").rows() == [(2, 0)]


def test_without_the_late_rank_transfers_are_bounds() -> None:
    job = planned(4)
    rows = collectives(on_true_clocks(job, missing=[3])).iter_rows(named=True)
    for row in rows:
        true = job.collectives[row["collective"]]
        assert row["is_bound"] == (3 in true.ranks or (1 not in true.event_ids and 1 in true.ranks))
        assert row["transfer_ns"] >= true.transfer_ns
        assert (row["transfer_ns"] > true.transfer_ns) == (true.late == 3)


def test_who_waits_and_who_is_waited_for_adds_up() -> None:
    job = planned(4)
    linked = on_true_clocks(job)
    for per_step in (False, True):
        found = collective_totals(linked, per_step=per_step)
        assert found["waiting_ns"].sum() == found["caused_ns"].sum()
        parts = pl.sum_horizontal("transfer_ns", "waiting_ns", "rest_ns")
        assert found.select((parts == pl.col("dur_ns")).all()).item()
    world = collective_totals(linked).filter(pl.col("group") == "0")
    planted = [true for true in job.collectives if true.group == "0" and len(true.event_ids) == 4]
    caused = sum(sum(true.waits.values()) for true in planted if true.late == 3)
    assert world.filter(pl.col("rank") == 3).item(0, "caused_ns") >= caused > 1_000_000


def test_of_a_wide_job_every_transfer_is_found() -> None:
    job = wide_job(WidePlan(ranks=16, collectives=300))
    clocks = pl.DataFrame({"rank": range(16), "host": ["node-0"] * 16}).with_columns(
        pl.lit(ClockMethod.SAME_HOST.value).alias("method")
    )
    linked = LinkedRanks(job.ranks, CLOCKS.conform(clocks, fill_missing=True), job.members, job.matched())
    found = collectives(linked).sort("collective")
    assert found["transfer_ns"].to_list() == job.transfer.tolist()
    assert (
        found["waiting_ns"].to_list() == (job.arrival.max(axis=1)[:, None] - job.arrival).sum(axis=1).tolist()
    )
    assert found["last_rank"].to_list() == job.arrival.argmax(axis=1).tolist()


def test_unknown_clocks_leave_the_shortest_duration_as_the_transfer() -> None:
    """All members end at once: the shortest is there from the last arrival on."""
    job = wide_job(WidePlan(ranks=8, collectives=100, hosts=HOSTS))
    clocks = pl.DataFrame({"rank": range(8)}).with_columns(pl.lit(ClockMethod.UNKNOWN.value).alias("method"))
    linked = LinkedRanks(job.ranks, CLOCKS.conform(clocks, fill_missing=True), job.members, job.matched())
    found = collectives(linked).sort("collective")
    assert set(found["transfer_method"]) == {TransferMethod.SHORTEST_MEMBER.value}
    # 20 ppm of 1 ms are 20 ns.
    assert (found["transfer_ns"].to_numpy() - job.transfer).__abs__().max() <= 25
