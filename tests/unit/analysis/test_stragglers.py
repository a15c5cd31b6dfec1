"""Stragglers: planted ones are found at their rank with their cause, clean jobs and pipelines have none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted import Cause, Host, PlannedJob, Scene, WidePlan, device_scene, wide_job
from tests.planted.stragglers import CAUSES, HOSTS, KINDS, LATE_NS, data_parallel, planted, ranks_of
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.distributions import at_least
from tracebraid.analysis.ranks import segments
from tracebraid.analysis.ranks.lateness import blocks_for
from tracebraid.analysis.ranks.rank_steps import rank_steps, rank_waits, steps_of_rank
from tracebraid.analysis.ranks.segments import MOST_NAMES, SegmentKind, rank_segments
from tracebraid.analysis.ranks.stragglers import late_arrivals, stragglers
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.answers.job import LateCause
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS

LATE = pl.col("lateness_ns") > LATE_NS // 2


@pytest.mark.full(keep=1)
@pytest.mark.slow
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


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("cause", Cause)
def test_a_single_late_step_is_no_systematic_straggler(cause: Cause) -> None:
    job = data_parallel(4, delays={6: (2, cause)})
    ranks = ranks_of(job)
    found = late_arrivals(ranks).filter(LATE)
    assert found.select("step", "rank", "cause").rows() == [
        ("ProfilerStep#6", 2, CAUSES["nccl", cause].value)
    ]
    assert not stragglers(ranks).get_column("systematic").any()


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nccl", "gloo"])
@pytest.mark.parametrize("world_size", [2, 4, 16])
def test_clean_jobs_have_none(kind: str, world_size: int) -> None:
    ranks = ranks_of(data_parallel(world_size, kind, steps=12, jitter_ns=30_000))
    assert not stragglers(ranks).get_column("systematic").any()


@pytest.mark.slow
def test_alternating_late_ranks_are_noise() -> None:
    ranks = ranks_of(data_parallel(4, steps=12, delays=lambda step: (step % 4, Cause.SLEEP)))
    assert late_arrivals(ranks).filter(LATE).height == 12
    assert not stragglers(ranks).get_column("systematic").any()


@pytest.mark.full
@pytest.mark.slow
def test_one_of_many_ranks_is_found() -> None:
    job = data_parallel(32, steps=4, delays=lambda step: (20, Cause.SLEEP))
    answer = stragglers(ranks_of(job)).filter("systematic")
    assert answer.select("rank", "cause").rows() == [(20, LateCause.HOST_WITHOUT_EVENTS.value)]


@pytest.mark.full
@pytest.mark.slow
def test_two_stragglers_with_different_causes() -> None:
    def delays(step: int) -> tuple[int, Cause]:
        return (1, Cause.KERNEL) if step % 2 else (5, Cause.DATA_LOADER)

    answer = stragglers(ranks_of(data_parallel(8, steps=20, delays=delays))).filter("systematic")
    assert set(answer.select("rank", "cause").rows()) == {
        (1, LateCause.LONGER_KERNEL.value),
        (5, LateCause.DATA_LOADER.value),
    }


@pytest.mark.slow
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


@pytest.mark.full(keep=1)
@pytest.mark.slow
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


@pytest.mark.full(keep=1)
@pytest.mark.slow
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


@pytest.mark.full
@pytest.mark.slow
def test_chance_raises_few_alarms() -> None:
    """All ranks' lateness has the same exponential distribution."""
    alarms = 0
    for seed in range(30):
        job = wide_job(WidePlan(4, 60, seed=seed))
        unexplained = rank_segments(Scene().linked())
        ranks = link_ranks(job.parts()).with_parts({rank_segments: unexplained})
        alarms += stragglers(ranks).get_column("systematic").any()
    assert alarms <= 1


@pytest.mark.slow
def test_who_causes_waiting_and_who_suffers() -> None:
    job = data_parallel(4, delays=lambda step: (3, Cause.SLEEP), jitter_ns=0)
    steps = rank_steps(ranks_of(job))
    assert steps.height == 40
    assert steps.get_column("waiting_ns").sum() == steps.get_column("caused_ns").sum()
    of_last = steps.filter(steps["rank"] == 3)
    assert (of_last.get_column("caused_ns") > 3 * LATE_NS * 0.9).all()
    assert (of_last.get_column("waiting_ns") < LATE_NS * 0.1).all()


STAGES, MICROBATCHES = 4, 6


def pipeline(slow: int | None = None, backward: bool = False) -> PlannedJob:
    """Steps of a pipeline: microbatches go forward through all stages, then back. A slow stage takes half more."""
    job = PlannedJob(STAGES, hosts=HOSTS)

    def compute(stage: int, name: str, ns: int) -> None:
        job.compute(ns * 3 // 2 if stage == slow else ns, [stage], name=name)

    for step in range(1, 9):
        with job.step(step):
            for _ in range(MICROBATCHES):
                for stage in range(STAGES):
                    compute(stage, "forward_gemm", 200_000)
                    if stage + 1 < STAGES:
                        job.send(stage, stage + 1)
            for _ in range(MICROBATCHES if backward else 0):
                for stage in reversed(range(STAGES)):
                    compute(stage, "backward_gemm", 400_000)
                    if stage > 0:
                        job.send(stage, stage - 1)
    return job


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
def test_a_balanced_pipeline_has_no_straggler(backward: bool) -> None:
    ranks = ranks_of(pipeline(backward=backward))
    late = late_arrivals(ranks)
    assert late.height > 0
    assert set(late.get_column("cause")) <= {
        cause.value for cause in (LateCause.PIPELINE_ORDER, LateCause.INHERITED, LateCause.BEFORE_RECORDING)
    }
    assert stragglers(ranks).is_empty()


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("slow", range(STAGES))
def test_a_slow_stage_is_found(slow: int, backward: bool) -> None:
    answer = stragglers(ranks_of(pipeline(slow, backward)))
    first = answer.filter(pl.col("systematic")).select("rank", "cause").rows()
    assert first == [(slow, LateCause.LONGER_KERNEL.value)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rank_steps", "rank_waits", "late_arrivals", "stragglers"])
def test_of_nothing_there_is_nothing(name: str) -> None:
    nothing = tracebraid.analyze(name, Scene().linked())
    assert nothing.frame.is_empty()
    alone = tracebraid.analyze(name, data_parallel(2).linked(0)).frame
    assert dict(alone.schema) == dict(nothing.frame.schema) == nothing.analysis.table.polars_schema()
    assert alone.is_empty() == (name != "rank_steps")
    assert rank_waits(link_ranks([]).with_parts({})).is_empty()


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_recording_that_begins_later_lengthens_no_step_of_another_rank(tmp_path: Path) -> None:
    job = PlannedJob(2)
    job.delay(1, Cause.SLEEP, LATE_NS)
    for step in (1, 2):
        with job.step(step):
            job.compute(100_000)
            job.collective(transfer=50_000)
    ranks = ranks_of(job)
    steps = rank_steps(ranks)
    first = steps.filter(pl.col("step") == "ProfilerStep#1")
    assert first.get_column("start_ns").n_unique() == 1
    names = ["span_ns", "waiting_ns", "caused_ns", "late_ns"]
    longest: dict[str, int] = first.select(names).max().row(0, named=True)
    # Rank 0 still waits for the part of rank 1's compute for which it had begun before.
    assert {name: ns < LATE_NS / 2 for name, ns in longest.items()} == dict.fromkeys(longest, True)
    assert longest["waiting_ns"] == longest["caused_ns"] < longest["span_ns"]
    assert rank_waits(ranks).select(pl.col("waiting_ns").max()).item() > LATE_NS / 2
    job.write(tmp_path)
    waited = tracebraid.metrics(tracebraid.open(tmp_path), only=["wait_time_per_step"], with_doubtful=True)
    assert waited.height == 3
    assert waited.select(pl.col("value").max()).item() < LATE_NS / 4


@pytest.mark.slow
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
        LateCause.UNEXPLAINED.value,
        LateCause.INHERITED.value,
        LateCause.BEFORE_RECORDING.value,
    }


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("per_step", [False, True])
def test_waits_are_those_of_steps(per_step: bool) -> None:
    ranks = ranks_of(data_parallel(4, delays=lambda step: (3, Cause.KERNEL)))
    waits, steps = rank_waits(ranks, per_step=per_step), rank_steps(ranks)
    assert waits.get_column("waiting_ns").sum() == steps.get_column("waiting_ns").sum()
    shares = waits.group_by("rank", "step").agg(pl.col("share").sum())
    assert shares.get_column("share").to_list() == pytest.approx([1.0] * shares.height)


@pytest.mark.slow
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


@pytest.mark.parametrize("kind", KINDS)
def test_segments_add_up(kind: str) -> None:
    linked = data_parallel(2, kind).linked(1)
    assert linked.timeline.span_ns is not None
    arrivals = members(linked).get_column("start_ns").sort()
    lengths = arrivals.diff().fill_null(arrivals[0] - linked.timeline.span_ns[0])
    sums = rank_segments(linked).group_by("event_id").agg(pl.col("time_ns").sum())
    assert sorted(sums.get_column("time_ns").to_list()) == sorted(lengths.to_list())


def test_names_beyond_the_most_are_merged_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_ROWS", MOST_NAMES)
    scene, host, stream = device_scene()
    names = MOST_NAMES + 5
    for number in range(names):
        host.launch(stream, f"kernel_{number}", 100_000 * (number + 1))
    event = host.collective(stream, 50_000)
    found = rank_segments(scene.linked()).filter(pl.col("kind") == SegmentKind.KERNEL)
    kept = found.filter(~pl.col("merged"))
    assert kept.height == MOST_NAMES
    assert found.get_column("event_id").unique().to_list() == [event.event_id]
    (rest,) = found.filter("merged").iter_rows(named=True)
    assert rest["count"] == names - MOST_NAMES
    assert int(found.get_column("time_ns").sum()) == sum(100_000 * (number + 1) for number in range(names))
    assert rest["time_ns"] == int(found.get_column("time_ns").sum()) - int(kept.get_column("time_ns").sum())


def test_what_is_launched_and_does_not_start_is_queued() -> None:
    scene, host, stream = device_scene()
    host.launch(stream, "gemm", 10_000)
    host.collective(stream, 50_000)
    host.until(stream.free)
    host.launch(stream, "late", 10_000, latency=300_000)
    event = host.collective(stream, 50_000)
    found = rank_segments(scene.linked()).filter(event_id=event.event_id, kind=int(SegmentKind.QUEUED))
    assert found.get_column("time_ns").to_list() == [300_000]


def test_a_trace_without_collectives_has_none() -> None:
    scene = Scene()
    scene.thread().run("aten::mm", 1_000)
    assert rank_segments(scene.linked()).is_empty()
    assert rank_segments(Scene().linked()).is_empty()


def test_stacks_name_what_the_host_does() -> None:
    scene, host, stream = device_scene()
    host.collective(stream, 50_000)
    host.until(stream.free)
    with host.frame("train.py(3): main"), host.frame("<built-in function sleep>"):
        host.spend(500_000)
    with host.frame("train.py(3): main", 100_000):
        event = host.collective(stream, 50_000)
    found = rank_segments(scene.linked()).filter(event_id=event.event_id, kind=int(SegmentKind.PYTHON))
    assert dict(found.select("name", "time_ns").iter_rows())["<built-in function sleep>"] == 500_000
    assert set(found.get_column("name")) == {"<built-in function sleep>", "train.py(3): main"}


def test_ids_of_single_collectives_do_not_part_a_group() -> None:
    scene, host, stream = device_scene(world_size=2)
    for number in range(3):
        host.collective(stream, 50_000).args["Comms Id"] = f"id {number}"
    linked = scene.linked()
    arrivals = members(linked).get_column("start_ns").sort().to_list()
    lengths = rank_segments(linked).group_by("event_id", maintain_order=True).agg(pl.col("time_ns").sum())
    assert lengths.get_column("time_ns").to_list()[1:] == [
        later - earlier for earlier, later in pairwise(arrivals)
    ]


@pytest.mark.parametrize(
    ("count", "trials", "probability"),
    [(3, 5, 0.5), (1, 10, 0.1), (10, 10, 0.25), (7, 40, 1 / 8), (0, 10, 0.3)],
)
def test_the_tail_of_a_binomial_distribution(count: int, trials: int, probability: float) -> None:
    terms = [
        math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)
    ]
    assert at_least(count, trials, probability) == pytest.approx(sum(terms[count:]))
    assert at_least(4, 4, 1.0) == 1.0
    assert at_least(2_000, 2_000, 1 / 64) < 1e-300


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 64])
def test_blocks_are_enough_and_one_less_is_not(ranks: int) -> None:
    blocks = blocks_for(ranks, 0.01)
    assert ranks * at_least(blocks, blocks, 1 / ranks) <= 0.01 * (1 + 1e-9)
    assert ranks * at_least(blocks - 1, blocks - 1, 1 / ranks) > 0.01
    assert blocks_for(1, 0.01) == 1, "a rank alone is always the latest"
