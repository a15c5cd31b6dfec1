"""Planted stragglers are found at their rank, with their cause; clean jobs have none."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from tests.planted import Cause, Host, PlannedJob, Scene, WidePlan, wide_job
from tests.unit.analysis.ranks.planned import CAUSES, HOSTS, LATE_NS, data_parallel, planted, ranks_of
from tracebraid.analysis.ranks.late_arrivals import late_arrivals
from tracebraid.analysis.ranks.lateness.rank_segments import rank_segments
from tracebraid.analysis.ranks.rank_steps import rank_steps
from tracebraid.analysis.ranks.stragglers import stragglers
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.answers import LateCause

LATE = pl.col("lateness_ns") > LATE_NS // 2


@pytest.mark.parametrize("world_size", [2, 5])
@pytest.mark.parametrize(("kind", "cause"), list(CAUSES), ids=lambda value: getattr(value, "name", value))
def test_each_cause_is_found(kind: str, cause: Cause, world_size: int) -> None:
    late = world_size - 1
    job = data_parallel(world_size, kind, delays=lambda step: (late, cause))
    ranks = ranks_of(job)
    found = late_arrivals(ranks).filter(LATE)
    assert found.sort("start_ns").select("step", "rank").equals(planted(job))
    assert set(found.get_column("cause")) == {CAUSES[kind, cause].value}
    assert (found.get_column("explained_share") > 0.8).all()
    answer = stragglers(ranks)
    assert answer.filter("systematic").select("rank", "cause").rows() == [(late, CAUSES[kind, cause].value)]


@pytest.mark.parametrize("cause", Cause)
def test_a_single_late_step_is_no_systematic_straggler(cause: Cause) -> None:
    job = data_parallel(4, delays={6: (2, cause)})
    ranks = ranks_of(job)
    found = late_arrivals(ranks).filter(LATE)
    assert found.select("step", "rank", "cause").rows() == [
        ("ProfilerStep#6", 2, CAUSES["nccl", cause].value)
    ]
    assert not stragglers(ranks).get_column("systematic").any()


@pytest.mark.parametrize("kind", ["nccl", "gloo"])
@pytest.mark.parametrize("world_size", [2, 4, 16])
def test_clean_jobs_have_none(kind: str, world_size: int) -> None:
    ranks = ranks_of(data_parallel(world_size, kind, steps=12, jitter_ns=30_000))
    assert not stragglers(ranks).get_column("systematic").any()


def test_alternating_late_ranks_are_noise() -> None:
    ranks = ranks_of(data_parallel(4, steps=12, delays=lambda step: (step % 4, Cause.SLEEP)))
    assert late_arrivals(ranks).filter(LATE).height == 12
    assert not stragglers(ranks).get_column("systematic").any()


def test_two_stragglers_with_different_causes() -> None:
    def delays(step: int) -> tuple[int, Cause]:
        return (1, Cause.KERNEL) if step % 2 else (5, Cause.DATA_LOADER)

    answer = stragglers(ranks_of(data_parallel(8, steps=20, delays=delays))).filter("systematic")
    assert set(answer.select("rank", "cause").rows()) == {
        (1, LateCause.LONGER_KERNEL.value),
        (5, LateCause.DATA_LOADER.value),
    }


def test_many_ranks() -> None:
    job = data_parallel(32, steps=4, delays=lambda step: (20, Cause.SLEEP))
    answer = stragglers(ranks_of(job)).filter("systematic")
    assert answer.select("rank", "cause").rows() == [(20, LateCause.HOST_WITHOUT_EVENTS.value)]


def test_lateness_that_passes_on_is_the_first_ranks() -> None:
    """Rank 1 is late in its pair with rank 0, so both are late for the others afterwards, by no fault of rank 0."""
    job = PlannedJob(4)
    job.group("low", [0, 1])
    job.group("high", [2, 3])
    for step in range(1, 11):
        with job.step(step):
            job.compute(100_000)
            job.delay(1, Cause.SLEEP, LATE_NS)
            for group in ("low", "high"):
                job.collective(group=group)
            job.compute(50_000)
            job.compute(30_000, [0])
            job.collective()
    ranks = ranks_of(job)
    of_all = ranks.collectives.filter(pl.col("ranks").list.len() == 4).get_column("collective").to_list()
    of_world = late_arrivals(ranks).filter(LATE & pl.col("collective").is_in(of_all))
    assert set(of_world.get_column("cause")) == {LateCause.INHERITED.value}
    assert set(of_world.get_column("origin_rank")) == {1}
    assert stragglers(ranks).filter("systematic").get_column("rank").to_list()[0] == 1


@pytest.mark.parametrize("hosts", [HOSTS, (Host(None),)], ids=["two hosts", "unknown host"])
@pytest.mark.parametrize("cause", Cause)
def test_a_mesh_of_two_kinds_of_groups(cause: Cause, hosts: Sequence[Host]) -> None:
    """Rank 5 is late in its pair and in its column; its partner passes the lateness on to its own column."""
    job = PlannedJob(8, hosts=hosts)
    rows = [job.group(f"row{first}", [first, first + 1]) for first in range(0, 8, 2)]
    columns = [job.group(f"column{first}", range(first, 8, 2)) for first in (0, 1)]
    for step in range(1, 9):
        with job.step(step):
            for layer in range(3):
                job.compute(100_000)
                if layer == 1:
                    job.delay(5, cause, LATE_NS)
                for group in rows:
                    job.collective(group=group)
            for group in columns:
                job.collective(group=group)
    ranks = ranks_of(job)
    answer = stragglers(ranks)
    assert answer.select("rank", "systematic", "cause").rows() == [(5, True, CAUSES["nccl", cause].value)]
    passed = late_arrivals(ranks).filter(pl.col("rank") == 4)
    assert set(passed.select("cause", "origin_rank").rows()) == {(LateCause.INHERITED.value, 5)}


@pytest.mark.parametrize("cause", Cause)
def test_collectives_beside_compute(cause: Cause) -> None:
    job = PlannedJob(4)
    for step in range(1, 9):
        with job.step(step):
            job.delay(2, cause, LATE_NS)
            for _ in range(4):
                job.compute(80_000)
                job.collective(overlaps=True, transfer=100_000)
    answer = stragglers(ranks_of(job)).filter("systematic")
    assert answer.select("rank", "late_count").rows() == [(2, 8)]


def test_chance_raises_few_alarms() -> None:
    """All ranks' lateness has the same exponential distribution."""
    alarms = 0
    for seed in range(30):
        job = wide_job(WidePlan(4, 60, seed=seed))
        unexplained = rank_segments(Scene().linked())
        ranks = link_ranks(job.parts()).with_parts({rank_segments: unexplained})
        alarms += stragglers(ranks).get_column("systematic").any()
    assert alarms <= 1


def test_who_causes_waiting_and_who_suffers() -> None:
    job = data_parallel(4, delays=lambda step: (3, Cause.SLEEP), jitter_ns=0)
    steps = rank_steps(ranks_of(job))
    assert steps.height == 40
    assert steps.get_column("waiting_ns").sum() == steps.get_column("caused_ns").sum()
    of_last = steps.filter(steps["rank"] == 3)
    assert (of_last.get_column("caused_ns") > 3 * LATE_NS * 0.9).all()
    assert (of_last.get_column("waiting_ns") < LATE_NS * 0.1).all()
