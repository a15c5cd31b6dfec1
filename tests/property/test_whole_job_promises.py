"""What is promised of a whole job's matches, clocks and stragglers, measured over fixed seeds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from tests.planted import Cause, Host, PlannedJob, WidePlan, wide_job
from tests.planted.hosts import BASE_NS
from tests.planted.wide_jobs import WideJob
from tracebraid.analysis.ranks.lateness.rank_segments import rank_segments
from tracebraid.analysis.ranks.stragglers import stragglers
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.linking.ranks.matching.known_offsets import KnownOffsets
from tracebraid.linking.ranks.matching.possible import can_meet
from tracebraid.linking.ranks.matching.rank_findings import of_another_run
from tracebraid.model.answers import LateCause
from tracebraid.model.linked_ranks import LinkedRanks, RankParts

DAY_NS = 86_400 * 10**9
HOSTS = (Host("a"), Host("b", 3_000_000, 20.0), Host("c", -DAY_NS, -35.0), Host("d", 7_000_000, 60.0))
PLANS = [
    WidePlan(2, 200, HOSTS[:2]),
    WidePlan(8, 300, HOSTS, jitter=300, lost=0.02),
    WidePlan(8, 300, HOSTS, without=("communicator", "sequence"), lost=0.02),
    WidePlan(16, 200, HOSTS, without=("communicator", "sequence", "group_ranks")),
    WidePlan(16, 300, HOSTS, groups=((0, 4, 8, 12), (1, 5, 9, 13), tuple(range(16)))),
    WidePlan(64, 100, HOSTS, jitter=300, lost=0.01),
]
SEEDS = range(3)


@cache
def jobs() -> list[tuple[WideJob, LinkedRanks]]:
    made = [wide_job(replace(plan, seed=seed)) for plan in PLANS for seed in SEEDS]
    return [(job, link_ranks(job.parts())) for job in made]


def pairs(labels: pl.Series) -> int:
    counts = labels.drop_nulls().value_counts().get_column("count").cast(pl.Int64)
    return int((counts * (counts - 1) // 2).sum())


def matched_pairs(job: WideJob, linked: LinkedRanks) -> tuple[int, int, int]:
    """Pairs of members that are right, those that were found, and those that there are."""
    true = job.members.select("rank", "event_id", pl.col("collective").alias("true"))
    found = linked.members.join(true, on=["rank", "event_id"], how="inner")
    both = found.drop_nulls("collective").select(pl.struct("collective", "true").alias("both"))
    right = pairs(both.get_column("both"))
    return right, pairs(found.get_column("collective")), pairs(found.get_column("true"))


def test_all_matches_are_right_and_nearly_all_are_found() -> None:
    sums = np.array([matched_pairs(job, linked) for job, linked in jobs()]).sum(axis=0)
    right, found, there = sums.tolist()
    assert right == found
    assert right >= 0.999 * there


def test_offsets_are_within_a_microsecond_and_their_intervals_hold_the_truth() -> None:
    errors, inside = [], []
    for job, linked in jobs():
        for row in linked.clocks.iter_rows(named=True):
            if row["at_ns"] is None or row["rank"] == row["reference"]:
                continue
            host, reference = job.host_of[row["rank"]], job.host_of[row["reference"]]
            true = host.offset_to(reference, row["at_ns"])
            errors.append(abs(row["offset_ns"] - true))
            inside.append(row["offset_low_ns"] <= true <= row["offset_high_ns"])
    assert len(inside) > 200
    assert max(errors) <= 1_000
    assert sum(inside) >= 0.95 * len(inside)


def test_intervals_hold_the_truth_where_a_host_ends_later() -> None:
    inside = []
    for seed in range(10):
        job = wide_job(WidePlan(8, 100, HOSTS, late_ends=(0, 15_000, 0, 40_000), jitter=2_000, seed=seed))
        for row in link_ranks(job.parts()).clocks.filter(pl.col("method") == "collectives").to_dicts():
            true = job.host_of[row["rank"]].offset_to(job.host_of[row["reference"]], row["at_ns"])
            inside.append(row["offset_low_ns"] <= true <= row["offset_high_ns"])
    assert sum(inside) >= 0.95 * len(inside) > 0


CAUSES = {
    Cause.KERNEL: {LateCause.LONGER_KERNEL.value, LateCause.MORE_KERNELS.value},
    Cause.OP: {LateCause.LONGER_HOST_OP.value},
    Cause.SLEEP: {LateCause.HOST_WITHOUT_EVENTS.value},
    Cause.DATA_LOADER: {LateCause.DATA_LOADER.value},
}


def straggling(cause: Cause | None, ranks: int) -> pl.DataFrame:
    job = PlannedJob(ranks, HOSTS[:2])
    for number in range(1, 13):
        with job.step(number):
            for _ in range(2):
                job.compute(200_000)
                if cause is not None:
                    job.delay(ranks - 1, cause, 400_000)
                job.collective("allreduce", skew={number % ranks: 3_000})
    return stragglers(link_ranks(job.parts(gathers=(rank_segments,)))).filter("systematic")


@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize("cause", Cause)
def test_every_planted_straggler_is_found_with_its_cause(cause: Cause, ranks: int) -> None:
    found = straggling(cause, ranks)
    assert found.get_column("rank").to_list() == [ranks - 1]
    assert found.item(0, "cause") in CAUSES[cause]


@pytest.mark.parametrize("ranks", [2, 5])
def test_a_clean_job_has_no_straggler(ranks: int) -> None:
    assert straggling(None, ranks).is_empty()


def pipeline(slow: int | None) -> pl.DataFrame:
    """Stages that pass four batches on and back, of which `slow` computes longer."""
    job, stages = PlannedJob(4, HOSTS[:2]), range(4)
    for number in range(1, 13):
        with job.step(number):
            for _ in range(4):
                for stage in stages:
                    job.compute(300_000 if stage == slow else 150_000, [stage])
                    if stage < 3:
                        job.send(stage, stage + 1)
            for _ in range(4):
                for stage in reversed(stages):
                    job.compute(600_000 if stage == slow else 300_000, [stage])
                    if stage:
                        job.send(stage, stage - 1)
            job.collective("allreduce")
    return stragglers(link_ranks(job.parts(gathers=(rank_segments,)))).filter("systematic")


def test_the_order_of_a_pipeline_is_no_straggler() -> None:
    assert pipeline(None).is_empty()


def test_a_slow_stage_of_a_pipeline_is_a_straggler() -> None:
    found = pipeline(2)
    assert found.get_column("rank").to_list() == [2]
    assert found.item(0, "cause") in CAUSES[Cause.KERNEL]


@pytest.mark.parametrize(("later", "strangers"), [(["step 1"], {1: 0}), (["step 9"], {})])
def test_a_rank_with_other_steps_is_of_the_run(later: list[str], strangers: dict[int, int]) -> None:
    job = wide_job(WidePlan(2, 20))
    members = job.members.with_columns(
        pl.when(pl.col("rank") == 0).then(pl.lit("step 1")).otherwise(pl.lit(later[0])).alias("step")
    )
    apart = pl.when(pl.col("rank") == 1).then(DAY_NS).otherwise(0)
    ranks = job.ranks.with_columns(pl.col("start_ns", "end_ns") + apart)
    assert of_another_run(ranks, members) == strangers


def test_two_runs_of_a_program_on_two_hosts_are_not_matched() -> None:
    without = ("communicator", "sequence", "group_ranks")
    runs = [wide_job(WidePlan(4, 60, HOSTS[:2], without=without, seed=seed)) for seed in (1, 2)]
    parts: list[RankParts] = [runs[rank // 2].parts()[rank] for rank in range(4)]
    ranks = link_ranks(parts).collectives.get_column("ranks").to_list()
    assert [0, 1] in ranks
    assert all(len({rank // 2 for rank in found}) == 1 for found in ranks)


def test_members_that_never_overlap_cannot_meet() -> None:
    starts = BASE_NS + np.arange(20) * 1_000_000
    ends = starts + 50_000
    assert can_meet((starts, ends), (starts + DAY_NS, ends + DAY_NS))
    moved = np.where(np.arange(20) % 3 == 0, 400_000, 0)
    assert not can_meet((starts, ends), (starts + moved, ends + moved))


def test_offsets_are_known_over_groups_that_share_a_rank() -> None:
    known = KnownOffsets({})
    known.add({0: 0, 1: 5})
    known.add({2: 0, 3: -7})
    assert known.between(3, 0) is None
    known.add({1: 0, 2: 100})
    assert known.between(1, 0) == 5
    assert known.between(2, 0) == 105
    assert known.between(3, 0) == 98
    assert known.between(0, 3) == -98
