"""Answers about hand-made ranks: bad input, and lateness that passes on."""

from __future__ import annotations

import polars as pl
import pytest

import tracebraid
from tests.planted import Cause, PlannedJob, Scene, WidePlan, wide_job
from tests.unit.analysis.ranks.planned import LATE_NS, data_parallel, ranks_of
from tracebraid.analysis.ranks.late_arrivals import late_arrivals
from tracebraid.analysis.ranks.lateness.rank_segments import rank_segments
from tracebraid.analysis.ranks.rank_steps import rank_steps, steps_of_rank
from tracebraid.analysis.ranks.rank_waits import rank_waits
from tracebraid.analysis.ranks.stragglers import stragglers
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.answers import LATE_ARRIVALS, RANK_STEPS, RANK_WAITS, STRAGGLERS, LateCause
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.ranks import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS

ANSWERS = {
    "rank_steps": RANK_STEPS,
    "rank_waits": RANK_WAITS,
    "late_arrivals": LATE_ARRIVALS,
    "stragglers": STRAGGLERS,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_of_nothing_there_is_nothing(name: str) -> None:
    schema = ANSWERS[name].polars_schema()
    of_none = tracebraid.analyze(name, Scene().linked()).frame
    assert of_none.is_empty()
    assert dict(of_none.schema) == schema
    alone = tracebraid.analyze(name, data_parallel(2).linked(0)).frame
    assert dict(alone.schema) == schema
    assert alone.is_empty() == (name != "rank_steps")


def test_no_ranks_at_all() -> None:
    ranks = link_ranks([]).with_parts({})
    assert rank_waits(ranks).is_empty()


def test_ranks_whose_steps_differ() -> None:
    job = PlannedJob(2, windows={1: (2, 3)})
    for step in (1, 2, 3):
        with job.step(step):
            job.compute(100_000)
            job.collective()
    steps = rank_steps(ranks_of(job))
    assert steps.select("step", "rank", "ranks").rows() == [
        ("ProfilerStep#1", 0, 1),
        ("ProfilerStep#2", 0, 2),
        ("ProfilerStep#2", 1, 2),
        ("ProfilerStep#3", 0, 2),
        ("ProfilerStep#3", 1, 2),
    ]


def test_no_steps_at_all() -> None:
    job = PlannedJob(2)
    for _ in range(10):
        job.compute(100_000)
        job.delay(1, Cause.SLEEP, LATE_NS)
        job.collective()
    ranks = ranks_of(job)
    assert rank_steps(ranks).is_empty()
    assert stragglers(ranks).filter("systematic").select("rank", "cause").rows() == [
        (1, LateCause.HOST_WITHOUT_EVENTS.value)
    ]


def test_missing_ranks_and_lost_collectives() -> None:
    job = PlannedJob(4)
    for step in range(1, 11):
        with job.step(step):
            job.compute(100_000)
            job.delay(2, Cause.DATA_LOADER, LATE_NS)
            job.collective(lost=[step % 2])
    ranks = link_ranks(job.parts(missing=[3], gathers=(rank_segments, steps_of_rank)))
    answer = stragglers(ranks).filter("systematic")
    assert answer.select("rank", "cause").rows() == [(2, LateCause.DATA_LOADER.value)]


def test_members_without_segments_have_unknown_causes() -> None:
    job = wide_job(WidePlan(8, 100))
    empty = rank_segments(Scene().linked())
    late = late_arrivals(link_ranks(job.parts()).with_parts({rank_segments: empty}))
    assert late.height > 0
    assert set(late.get_column("cause")) <= {
        LateCause.UNKNOWN.value,
        LateCause.INHERITED.value,
        LateCause.BEFORE_RECORDING.value,
    }


@pytest.mark.parametrize("per_step", [False, True])
def test_waits_are_those_of_steps(per_step: bool) -> None:
    ranks = ranks_of(data_parallel(4, delays=lambda step: (3, Cause.KERNEL)))
    waits, steps = rank_waits(ranks, per_step=per_step), rank_steps(ranks)
    assert waits.get_column("waiting_ns").sum() == steps.get_column("waiting_ns").sum()
    shares = waits.group_by("rank", "step").agg(pl.col("share").sum())
    assert shares.get_column("share").to_list() == pytest.approx([1.0] * shares.height)


def test_a_threshold_leaves_out_what_is_less() -> None:
    ranks = ranks_of(data_parallel(2, delays=lambda step: (1, Cause.SLEEP)))
    assert late_arrivals(ranks, least_ns=LATE_NS // 2).height == 10
    assert late_arrivals(ranks, least_ns=2 * LATE_NS).is_empty()
    assert late_arrivals(ranks, least_ns=-1).height >= 10


def test_one_wait_at_several_collectives_counts_once() -> None:
    """Two collectives wait for the same rank at once: on threads or streams of their own."""
    rows = [(0, 0, 0, 50_000), (0, 1, 10_000, 60_000), (1, 0, 40_000, 50_000), (1, 1, 45_000, 60_000)]
    members = MEMBERS.conform(
        pl.DataFrame(
            [(rank, event, event, "0", "all_reduce", start, end) for rank, event, start, end in rows],
            schema=["rank", "event_id", "collective", "process_group", "type", "start_ns", "end_ns"],
            orient="row",
        ),
        fill_missing=True,
    )
    collectives = MATCHED_COLLECTIVES.conform(
        pl.DataFrame({"collective": [0, 1], "ranks": [[0, 1], [0, 1]], "group_size": [2, 2]}),
        fill_missing=True,
    )
    clocks = CLOCKS.conform(pl.DataFrame({"rank": [0, 1], "host": ["a", "a"]}), fill_missing=True)
    ranks = LinkedRanks(RANKS.empty(), clocks, members, collectives)
    assert rank_waits(ranks).select("rank", "waited_for", "waiting_ns", "count").rows() == [(0, 1, 45_000, 2)]
