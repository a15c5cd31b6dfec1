"""What a planned job plants is read back exactly, on its hosts' clocks."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted import Cause, Host, PlannedJob, Scene, WidePlan, wide_job
from tests.planted.hosts import BASE_NS
from tracebraid.linking.ranks.clocks import link_ranks

DAY_NS = 86_400 * 10**9
HOSTS = (Host("a"), Host("b", ahead_ns=-DAY_NS, drift_ppm=20.0))


def planned(**options: object) -> PlannedJob:
    job = PlannedJob(4, **options)  # type: ignore[arg-type]
    job.group("pair", [0, 2], renamed={2: "7"})
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000)
            job.delay(3, Cause.KERNEL, 400_000)
            job.collective("allreduce", transfer=50_000, skew={1: 2_000})
            job.send(0, 2, "pair")
    return job


@pytest.mark.parametrize("devices", [None, ()], ids=["nccl", "gloo"])
def test_members_are_read_back_on_each_hosts_clock(devices: tuple[()] | None) -> None:
    job = planned(hosts=HOSTS, **({} if devices is None else {"devices": devices}))
    for rank, part in enumerate(job.parts()):
        host = job.host_of[rank]
        true = [found for found in job.collectives if rank in found.ranks]
        assert part.facts.item(0, "host") == host.name
        assert part.members.get_column("event_id").to_list() == [found.event_ids[rank] for found in true]
        spans = part.members.select("start_ns", "end_ns").rows()
        assert spans == [
            tuple(host.says(BASE_NS + at[rank]) for at in (found.arrival, found.end)) for found in true
        ]


def test_the_late_rank_is_that_with_the_planted_cause() -> None:
    for reduced in planned().collectives[::2]:
        assert reduced.late == 3
        assert reduced.causes == {3: (Cause.KERNEL,)}
        assert reduced.waits[3] == 0
        assert (
            reduced.waits[0] >= 400_000 - 20_000
        )  # rank 0 begins a step later by its send in the step before
        assert set(reduced.end.values()) == {reduced.arrival[3] + 50_000}


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_makes_its_rank_late_by_its_time(cause: Cause) -> None:
    job = PlannedJob(2)
    with job.step(1):
        job.compute(10_000)
        job.delay(1, cause, 700_000)
        reduced = job.collective()
    assert reduced.late == 1
    assert reduced.waits[0] >= 700_000


def test_ranks_record_their_windows_and_lose_events() -> None:
    job = PlannedJob(2, windows={1: (2, 2)})
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(10_000)
            job.collective(lost=[0] if number == 2 else [])
    assert [set(found.event_ids) for found in job.collectives] == [{0}, {1}, {0}]
    assert [part.members.height for part in job.parts()] == [2, 1]
    assert job.parts()[1].members.get_column("step").to_list() == ["ProfilerStep#2"]


def test_groups_keep_their_names_in_each_trace_and_lack_what_is_left_out() -> None:
    job = planned(without=("Seq", "Comms Id"))
    first, third = (job.linked(rank).timeline.collectives for rank in (0, 2))
    names = [set(frame.get_column("pg_name").cast(pl.String).to_list()) for frame in (first, third)]
    assert names == [{"0", "pair"}, {"0", "7"}]
    assert first.get_column("sequence").null_count() == first.height
    assert planned().linked(0).timeline.collectives.get_column("comms_id").null_count() == 0


def test_a_folder_of_some_ranks_opens_as_a_job(tmp_path: Path) -> None:
    job = tracebraid.open(planned().write(tmp_path, missing=[1]))
    assert not isinstance(job, tracebraid.LinkedTrace)
    assert job.ranks == [0, 2, 3]


def test_a_host_knows_its_offset_to_another() -> None:
    near, far = HOSTS
    own = far.says(BASE_NS + 1_000_000_000)
    assert far.offset_to(near, own) == DAY_NS - 20_000
    assert near.offset_to(far, near.says(BASE_NS)) == -DAY_NS


def test_a_scene_names_no_host_unless_it_is_given_one() -> None:
    assert "host_name" not in Scene().header()


def test_a_big_job_has_its_truth_in_its_members() -> None:
    job = wide_job(WidePlan(8, 40, HOSTS, groups=((0, 1, 2, 3), (4, 5, 6, 7)), lost=0.1))
    assert job.members.height == job.recorded.sum()
    for rank, collective, start, end in job.members.select(
        "rank", "collective", "start_ns", "end_ns"
    ).iter_rows():
        says = job.host_of[rank].says
        assert start == says(BASE_NS + int(job.arrival[collective, rank]))
        assert end == says(BASE_NS + int(job.end[collective, rank]))
    matched = job.matched()
    assert matched.get_column("group_size").unique().to_list() == [4]
    assert sum(len(ranks) for ranks in matched.get_column("ranks")) == job.members.height


def test_a_big_job_links() -> None:
    linked = link_ranks(wide_job(WidePlan(8, 40)).parts())
    assert linked.members.height == 8 * 40
    assert linked.ranks.height == 8
