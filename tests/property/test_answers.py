"""Answers over random scenes and jobs: parts add up to what was planted, to the ns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import Host, Planted, Scene, WidePlan, wide_job
from tests.planted.events import ANNOTATION, KERNEL, OP
from tests.planted.hosts import BASE_NS
from tests.planted.members import linked_ranks, member
from tests.planted.random_scenes import scenes
from tests.planted.scenes import clean
from tests.planted.wide_jobs import WideJob
from tracebraid import analyze
from tracebraid.analyses import breakdown, kernels, launchers, ops, steps
from tracebraid.analysis.catalog import all_analyses, job_analyses, rank_analyses
from tracebraid.analysis.collectives.transfers import (
    collective_bandwidth,
    collective_ranks,
    collective_totals,
    collectives,
)
from tracebraid.api.job_answers import answers_of_ranks, job_rank_inputs
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.linking.ranks.matching.by_order import KnownOffsets, can_meet
from tracebraid.linking.ranks.matching.findings import of_another_run
from tracebraid.model.analysis import Analysis, Family, JobAnalysis
from tracebraid.model.collectives import BETWEEN_TWO, CollectiveType
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace

steady = settings(deadline=None, derandomize=True, max_examples=15)
WORK = (KERNEL, "gpu_memcpy", "gpu_memset")


def duration(events: Iterable[Planted]) -> int:
    return sum(event.dur for event in events)


def step_of(event: Planted) -> str | None:
    """The step around the launch of work."""
    around = [host.name for host in event.ancestors() if host.name.startswith("ProfilerStep#")]
    return around[0] if around else None


def assert_fits(analysis: Analysis, found: pl.DataFrame) -> None:
    assert dict(found.schema) == analysis.table.polars_schema(), analysis.name
    finite = found.select(pl.col(pl.Float64).is_finite().all())
    assert all(all(row) for row in finite.rows()), analysis.name


def by_step(analysis: Analysis) -> dict[str, bool]:
    return {"per_step": True} if "per_step" in analysis.options else {}


@pytest.mark.full
@steady
@given(scenes())
def test_every_answer_fits_its_table_and_depends_on_no_other(scene: Scene) -> None:
    linked, again = scene.linked(), scene.linked()
    found = {analysis.name: analysis.answer(linked) for analysis in rank_analyses()}
    for analysis in reversed(rank_analyses()):
        assert_fits(analysis, found[analysis.name])
        assert analysis.answer(again).equals(found[analysis.name]), analysis.name
        assert found[analysis.name].get_column("rank").unique().to_list() in ([], [scene.rank])
        assert_fits(analysis, analysis.answer(linked, **by_step(analysis)))


@pytest.mark.full
@steady
@given(scenes(device=False))
def test_every_answer_can_do_without_a_device(scene: Scene) -> None:
    """It has no rows where the scene lacks what the analysis needs."""
    linked = scene.linked()
    for analysis in rank_analyses():
        found = analyze(analysis.name, linked)
        assert_fits(analysis, found.frame)
        assert found.frame.is_empty() or not found.is_unanswerable, analysis.name


@pytest.mark.parametrize("analysis", rank_analyses(), ids=lambda analysis: analysis.name)
def test_every_answer_of_a_clean_scene_is_in_order_by_step_too(analysis: Analysis) -> None:
    scene = clean(world_size=2)
    first, second = scene.linked(), scene.linked()
    for options in ({}, by_step(analysis)):
        found = analysis.answer(first, **options)
        assert_fits(analysis, found)
        assert found.equals(analysis.answer(second, **options))


@steady
@given(scenes())
def test_overlap_and_exposed_communication_are_all_communication(scene: Scene) -> None:
    found = breakdown(scene.linked())
    assert all(found.select(pl.col(pl.Int64).min() >= 0).fill_null(value=True).row(0))
    hidden = pl.col("overlap_ns") + pl.col("exposed_communication_ns")
    assert found.select((hidden == pl.col("communication_ns")).all()).item()


@steady
@given(scenes())
def test_a_breakdown_spans_the_work_and_each_step(scene: Scene) -> None:
    rows = {row["step"]: row for row in breakdown(scene.linked()).to_dicts()}
    work = scene.of_category(*WORK)
    if work:
        whole = rows[None]
        assert whole["start_ns"] == min(event.ts for event in work)
        assert whole["start_ns"] + whole["span_ns"] == max(event.end for event in work)
        # A step lasts from the end of the one before to its own, on the host or on the device.
        ends = {row["start_ns"] + row["span_ns"] for name, row in rows.items() if name is not None}
        for step in scene.of_category(ANNOTATION):
            if step.name in rows:
                start, span = rows[step.name]["start_ns"], rows[step.name]["span_ns"]
                assert start == step.ts or start in ends
                assert start + span >= step.end or start + span in ends


@steady
@given(scenes())
def test_launchers_add_up_to_the_work_of_each_step(scene: Scene) -> None:
    linked = scene.linked()
    work = scene.of_category(*WORK)
    over_all = launchers(linked)
    assert over_all.get_column("device_ns").sum() == duration(work)
    assert over_all.get_column("kernels").sum() == len(work)
    by_step = launchers(linked, per_step=True).group_by("step").agg(pl.col("device_ns").sum())
    # A step is a window of time: what another thread launches in it is of it too.
    main = [event for event in work if event.call is not None and event.call.tid == scene.pid]
    if len(main) == len(work):
        expected = {step_of(event): 0 for event in work}
        for event in work:
            expected[step_of(event)] += event.dur
        assert dict(by_step.iter_rows()) == expected


@steady
@given(scenes())
def test_kernels_add_up_to_the_work(scene: Scene) -> None:
    found = kernels(scene.linked())
    work = scene.of_category(*WORK)
    names = {event.name for event in work}
    sums = dict(found.group_by("name").agg(pl.col("total_ns").sum()).iter_rows())
    assert sums == {name: duration(e for e in work if e.name == name) for name in names}
    assert found.get_column("count").sum() == len(work)


@steady
@given(scenes())
def test_ops_add_up_to_the_work_that_they_launched(scene: Scene) -> None:
    found = ops(scene.linked())
    launched = [event for event in scene.of_category(*WORK) if event.op is not None]
    assert found.get_column("device_self_ns").sum() == duration(launched)
    host = scene.of_category(OP, ANNOTATION)
    assert found.get_column("count").sum() == len(host)
    assert found.get_column("host_self_ns").sum() == duration(op for op in host if op.op is None)


@steady
@given(scenes())
def test_steps_are_those_planted(scene: Scene) -> None:
    planted = [e for e in scene.of_category(ANNOTATION) if e.name.startswith("ProfilerStep#")]
    rows = steps(scene.linked()).select("step", "start_ns", "end_ns").rows()
    assert rows == [(event.name, event.ts, event.end) for event in planted]


steady_jobs = settings(deadline=None, derandomize=True, max_examples=5)


def answered(analysis: JobAnalysis, ranks: Sequence[LinkedTrace]) -> pl.DataFrame:
    """The answer, which fits its table."""
    answers, _ = answers_of_ranks([analysis], [job_rank_inputs([analysis], rank) for rank in ranks])
    found = answers[analysis.name].frame
    assert_fits(analysis, found)
    return found


@pytest.mark.full
@steady_jobs
@given(st.lists(scenes(), min_size=1, max_size=3))
def test_every_answer_of_random_ranks_fits_its_table_and_depends_on_no_order(found: list[Scene]) -> None:
    for rank, scene in enumerate(found):
        scene.rank, scene.world_size = rank, len(found)
    ranks = [scene.linked() for scene in found]
    for analysis in job_analyses():
        assert answered(analysis, ranks).equals(answered(analysis, ranks[::-1])), analysis.name


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "scenes_of_job",
    [[], [Scene()], [Scene(), Scene(rank=1)], [clean()], [clean(rank=rank, world_size=3) for rank in (0, 2)]],
    ids=["no rank", "no event", "two without events", "no communication", "a rank is missing"],
)
def test_every_answer_can_do_with_less(scenes_of_job: list[Scene]) -> None:
    ranks = [scene.linked() for scene in scenes_of_job]
    for analysis in job_analyses():
        assert answered(analysis, ranks).equals(answered(analysis, ranks)), analysis.name


ANALYSES = [found for found in all_analyses() if found.family is Family.COLLECTIVES]
steady_collectives = settings(deadline=None, derandomize=True, max_examples=20)
sizes = st.one_of(st.none(), st.integers(-5, 10**6), st.just(2**59))
ranks_of = st.one_of(st.none(), st.integers(0, 4))
splits = st.sampled_from([None, "[]", "[1, 2, 3]", "[0, 0]", "x", "[-1]"])


@st.composite
def members(draw: st.DrawFn) -> dict[str, object]:
    start = draw(st.integers(0, 1000))
    return member(
        draw(st.integers(0, 4)),
        start,
        start + draw(st.integers(-50, 500)),
        draw(st.one_of(st.none(), st.integers(0, 5))),
        type=draw(st.one_of(st.none(), st.sampled_from([kind.value for kind in CollectiveType]))),
        source=draw(ranks_of),
        destination=draw(ranks_of),
        group_size=draw(st.one_of(st.none(), st.integers(-1, 5))),
        group_ranks=draw(st.sampled_from([None, "[]", "[0,1]", "[0,1,2,3,4]"])),
        in_bytes=draw(sizes),
        out_bytes=draw(sizes),
        in_split=draw(splits),
        out_split=draw(splits),
        step=draw(st.sampled_from([None, "ProfilerStep#1", "ProfilerStep#2"])),
    )


clock = st.fixed_dictionaries(
    {
        "host": st.sampled_from([None, "a", "b"]),
        "method": st.sampled_from(["unknown", "collectives", "same host", "reference"]),
        "offset_low_ns": st.one_of(st.none(), st.integers(-100, 0)),
        "offset_high_ns": st.one_of(st.none(), st.integers(0, 100)),
        "at_ns": st.one_of(st.none(), st.just(500)),
        "drift_low_ppm": st.one_of(st.none(), st.just(-1.0)),
        "drift_high_ppm": st.one_of(st.none(), st.just(1.0)),
    }
)

jobs = st.builds(
    linked_ranks, st.lists(members(), max_size=25), st.dictionaries(st.integers(0, 4), clock, max_size=5)
)


@steady_collectives
@given(jobs)
def test_parts_of_members_add_up(ranks: LinkedRanks) -> None:
    found = collective_ranks(ranks)
    parts = ("waiting_ns", "transfer_ns", "rest_ns")
    unmet = pl.all_horizontal(pl.col(parts).is_null())
    assert found.select((unmet | (pl.sum_horizontal(parts) == pl.col("dur_ns"))).all()).item()
    assert set(found.filter(unmet).get_column("type")) <= {kind.value for kind in BETWEEN_TWO}
    assert found.select(pl.all_horizontal(pl.col(*parts, "late_by_ns").fill_null(0) >= 0).all()).item()
    assert found.height == ranks.members.height
    waited = found.filter(pl.col("waited_for").is_not_null())
    assert waited.select((pl.col("waited_for") != pl.col("rank")).all()).item()
    assert waited.select((pl.col("waiting_ns") > 0).all()).item()


@steady_collectives
@given(jobs)
def test_no_member_is_dropped_and_totals_agree(ranks: LinkedRanks) -> None:
    members, found = collective_ranks(ranks), collectives(ranks)
    assert found.get_column("ranks").list.len().sum() == members.height
    assert found["waiting_ns"].sum() == members["waiting_ns"].sum()
    assert found["rest_ns"].sum() == members["rest_ns"].sum()
    assert found.select((pl.col("transfer_ns") >= 0).all()).item()
    for per_step in (False, True):
        totals = collective_totals(ranks, per_step=per_step)
        for name in ("dur_ns", "transfer_ns", "waiting_ns", "rest_ns"):
            assert totals[name].sum() == members[name].sum()
        known = members.filter(pl.col("waited_for").is_not_null())
        assert totals["caused_ns"].sum() == known["waiting_ns"].sum()
        by_size = collective_bandwidth(ranks, per_step=per_step, peak_bandwidth=1e9)
        assert by_size["count"].sum() == found.height
        assert by_size["transfer_ns"].sum() == found["transfer_ns"].sum()


@pytest.mark.full
@steady_collectives
@given(jobs)
def test_every_answer_of_collectives_fits_its_table(ranks: LinkedRanks) -> None:
    for analysis in ANALYSES:
        assert_fits(analysis, analysis.answer(ranks))


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
def wide_jobs() -> list[tuple[WideJob, LinkedRanks]]:
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


@pytest.mark.full
def test_all_matches_are_right_and_nearly_all_are_found() -> None:
    sums = np.array([matched_pairs(job, linked) for job, linked in wide_jobs()]).sum(axis=0)
    right, found, there = sums.tolist()
    assert right == found
    assert right >= 0.999 * there


def test_offsets_are_within_a_microsecond_and_their_intervals_hold_the_truth() -> None:
    errors, inside = [], []
    for job, linked in wide_jobs():
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
