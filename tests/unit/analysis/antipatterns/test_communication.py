"""Detectors of communication and of imbalance: what they leave alone."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import busy
from tests.planted.hosts import Cause
from tests.planted.jobs import PlannedJob
from tracebraid.analysis.antipatterns.communication.hidable import hidable_communication
from tracebraid.analysis.antipatterns.communication.small_collectives import (
    LEAST_COLLECTIVES,
    small_collectives,
)
from tracebraid.analysis.antipatterns.communication.unbalanced_buckets import unbalanced_buckets
from tracebraid.analysis.antipatterns.ranks.catalog import DETECTORS
from tracebraid.analysis.antipatterns.ranks.gathered import collective_sites, step_compute
from tracebraid.analysis.antipatterns.ranks.imbalance import rank_imbalance, stage_imbalance
from tracebraid.analysis.antipatterns.ranks.late import LEAST_WAITING_NS, late_ranks
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP


@pytest.mark.parametrize(
    ("count", "nelems", "between", "found"),
    [
        (LEAST_COLLECTIVES, 1024, 0, 3),
        (LEAST_COLLECTIVES - 1, 1024, 0, 0),
        (10, 1024 * 1024, 0, 0),
        (10, 1024, 3, 0),
        (10, 1024, 1, 3),
    ],
)
def test_small_collectives_stand_back_to_back(count: int, nelems: int, between: int, found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        for _ in range(count):
            host.collective(stream, 20_000, nelems=nelems)
            for _ in range(between):
                with host.op("aten::div_"):
                    host.launch(stream, "div_kernel", 2_000)

    assert small_collectives(busy(body, world_size=2).linked(), PROFILER_STEP).height == found


def test_small_collectives_behind_compute_save_nothing() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        network = scene.stream(20)
        network.free = max(network.free, stream.free)
        with host.op("aten::gelu"):
            host.launch(stream, "gelu_kernel", 1_000_000)
        for _ in range(10):
            host.collective(network, 20_000)

    assert small_collectives(busy(body, world_size=2).linked(), PROFILER_STEP).is_empty()


@pytest.mark.parametrize(("sizes", "found"), [((1, 1, 1, 3), 0), ((1, 1, 1, 4), 3), ((1, 9), 0)])
def test_buckets_of_like_size_are_balanced(sizes: tuple[int, ...], found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        for size in sizes:
            host.collective(stream, size * 50_000, nelems=size * 1024 * 1024)

    assert unbalanced_buckets(busy(body, world_size=2).linked(), PROFILER_STEP).height == found


def test_reductions_behind_the_backward_pass_could_run_in_it() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::cos", dims=[[4096, 4096]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos_kernel", 100_000)
        with host.backward("CosBackward0", forward, host), host.op("aten::sin"):
            host.launch(stream, "sin_kernel", 150_000)
        for _ in range(3):
            host.collective(stream, 100_000, nelems=1024 * 1024)

    found = hidable_communication(busy(body, world_size=2).linked(), PROFILER_STEP)
    assert found.get_column("saving_ns").to_list() == [100_000, 50_000] * 3


def test_what_a_backward_node_communicates_it_needs() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::cos", dims=[[4096, 4096]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos_kernel", 100_000)
        with host.backward("CopyToRegionBackward", forward, host):
            host.collective(stream, 100_000, nelems=1024 * 1024)
            with host.op("aten::sin"):
                host.launch(stream, "sin_kernel", 150_000)

    assert hidable_communication(busy(body, world_size=2).linked(), PROFILER_STEP).is_empty()


def linked(job: PlannedJob, missing: tuple[int, ...] = ()) -> LinkedRanks:
    return link_ranks(job.parts(missing, gathers=(step_compute, collective_sites)))


def even(job: PlannedJob, number: int) -> None:
    with job.step(number):
        job.compute(100_000)
        job.collective(nelems=1024 * 1024)


def test_balanced_ranks_have_no_imbalance() -> None:
    job = PlannedJob(4)
    for number in range(1, 4):
        even(job, number)
    ranks = linked(job)
    assert all(detector.detect(ranks).is_empty() for detector in DETECTORS)


def test_ranks_that_are_late_for_another_reason_compute_no_more() -> None:
    job = PlannedJob(4)
    with job.step(1):
        job.compute(100_000)
        job.compute(10_000_000, ranks=[3], name="copy")
        job.collective()
    with job.step(2):
        job.compute(1_000_000)
        job.threads[3].until(job.scenes[3].stream(7).free + 5_000_000)
        job.collective()
    found = rank_imbalance(linked(job))
    assert set(found.get_column("step").to_list()) == {"ProfilerStep#1"}


def late_job(cause: Cause, ns: int) -> pl.DataFrame:
    """What is saved at most on each rank of which one is late in a step, without the others."""
    job = PlannedJob(4)
    for number in (1, 2):
        with job.step(number):
            job.compute(1_000_000)
            if number == 2:
                job.delay(3, cause, ns)
            job.collective()
    found = (
        late_ranks(linked(job)).group_by("rank").agg(pl.col("saving_ns").sum(), pl.col("subject").unique())
    )
    return found.sort("rank")


@pytest.mark.parametrize("cause", [Cause.SLEEP, Cause.DATA_LOADER, Cause.OP])
def test_a_rank_that_is_late_costs_the_others_what_they_wait(cause: Cause) -> None:
    found = late_job(cause, 5_000_000)
    assert found.get_column("rank").to_list() == [0, 1, 2]
    assert found.get_column("subject").to_list() == [["rank 3 is late"]] * 3
    assert found.get_column("saving_ns").to_list() == [pytest.approx(5_000_000, rel=0.05)] * 3


@pytest.mark.parametrize(("cause", "ns"), [(Cause.KERNEL, 5_000_000), (Cause.SLEEP, LEAST_WAITING_NS // 2)])
def test_computing_more_and_little_waiting_are_no_late_rank(cause: Cause, ns: int) -> None:
    assert late_job(cause, ns).is_empty()


def test_an_imbalance_saves_at_most_what_the_busiest_is_above_the_mean() -> None:
    job = PlannedJob(4)
    with job.step(1):
        job.compute(100_000, name="gemm")
        job.compute(400_000, ranks=[2], name="gemm")
        job.collective()
    by_rank = rank_imbalance(linked(job)).group_by("rank").agg(pl.col("saving_ns").sum()).sort("rank")
    assert by_rank.rows() == [(0, 300_000), (1, 300_000), (3, 300_000)]


def test_missing_ranks_and_no_collectives_give_no_error() -> None:
    job = PlannedJob(4)
    even(job, 1)
    for detector in DETECTORS:
        assert detector.detect(linked(job, missing=(1, 2, 3))).is_empty()
    alone = PlannedJob(2)
    with alone.step(1):
        alone.compute(1_000)
    assert rank_imbalance(linked(alone)).is_empty()
    assert stage_imbalance(linked(alone)).is_empty()


def test_ranks_without_devices_are_compared_by_their_ops() -> None:
    job = PlannedJob(2, devices=())
    with job.step(1):
        job.compute(1_000_000)
        job.compute(4_000_000, ranks=[1])
        job.collective()
    found = rank_imbalance(linked(job))
    assert found.get_column("rank").to_list() == [0]
    assert found.item(0, "saving_ns") == pytest.approx(2_000_000, rel=0.02)
