"""Metrics of jobs whose figures are known by construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.planted import Scene
from tests.planted.hosts import Cause
from tests.planted.jobs import PlannedJob
from tests.planted.scene import write_ranks
from tests.planted.scenes import clean
from tracebraid import metrics, open
from tracebraid.analyses import launch_bound, step_times
from tracebraid.model.engine import Job

STEPS, LATE_NS, TRANSFER_NS, NELEMS = 4, 400_000, 50_000, 2048


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Four ranks, of which the last computes longer, and all wait for it."""
    planned = PlannedJob(4)
    for number in range(1, STEPS + 1):
        with planned.step(number):
            planned.compute(100_000)
            planned.delay(3, Cause.KERNEL, LATE_NS)
            planned.collective("allreduce", transfer=TRANSFER_NS, nelems=NELEMS)
    return open(planned.write(tmp_path_factory.mktemp("planned")))


def value(job: Job, name: str, rank: int | None = None, **options: Any) -> float:
    rows = metrics(job, only=[name], **options).filter(pl.col("rank").eq_missing(rank))
    (found,) = rows.get_column("value").to_list()
    assert isinstance(found, float)
    return found


def test_the_imbalance_is_what_was_planted(job: Job) -> None:
    """Three ranks compute for 100 µs, and the last for 400 µs more."""
    compute = [100_000] * 3 + [100_000 + LATE_NS]
    mean = sum(compute) / 4
    assert value(job, "load_imbalance") == pytest.approx(compute[3] / mean, rel=1e-3)
    for rank in range(4):
        assert value(job, "load_imbalance", rank) == pytest.approx(compute[rank] / mean, rel=1e-3)


def test_the_wait_is_that_for_the_late_rank(job: Job) -> None:
    waited = [value(job, "wait_time_per_step", rank) for rank in range(4)]
    assert waited[3] == 0
    assert waited[:3] == pytest.approx([LATE_NS] * 3, rel=0.1)
    assert value(job, "wait_time_per_step") == pytest.approx(sum(waited) / 4)
    share = sum(waited) / (sum(waited) + 4 * TRANSFER_NS)
    assert value(job, "wait_share") == pytest.approx(share)


def test_the_volume_is_what_all_ranks_give(job: Job) -> None:
    assert value(job, "communication_bytes_per_step", 0) == NELEMS * 4
    assert value(job, "communication_bytes_per_step") == 4 * NELEMS * 4
    assert value(job, "collectives_per_step") == 4


def test_the_bandwidth_is_that_of_the_transfer_without_waiting(job: Job) -> None:
    """An all-reduce of four ranks moves 2 x 3/4 of the message over the bus."""
    planted = NELEMS * 4 * 1.5 / TRANSFER_NS * 1e9
    for rank in (None, 0, 3):
        assert value(job, "all_reduce_bus_bandwidth", rank) == pytest.approx(planted, rel=1e-3)
    assert value(job, "bus_bandwidth_peak_share", peak_bandwidth=2 * planted) == pytest.approx(0.5, rel=1e-3)


def test_a_rank_alone_tells_no_bandwidth(job: Job) -> None:
    rows = metrics(job[0], only=["all_reduce_bus_bandwidth"])
    assert rows.get_column("value").is_null().all()


def test_the_step_of_a_job_is_that_of_its_slowest_rank(job: Job) -> None:
    spans = step_times(job).group_by("step").agg(pl.col("span_ns").max()).get_column("span_ns")
    assert value(job, "step_time_mean") == pytest.approx(spans.mean())
    assert value(job, "step_time_median") == spans.median()
    assert value(job, "step_time_p95") == pytest.approx(spans.quantile(0.95, interpolation="linear"))
    assert value(job, "steps_counted") == STEPS


def test_a_stated_peak_is_divided_by() -> None:
    linked = clean(steps=4).linked()
    flops = metrics(linked, only=["model_flops_per_second"]).item(0, "value")
    shares = metrics(linked, only=["mfu", "hfu"], peak_flops=4 * flops)
    assert shares.filter(pl.col("rank").is_null()).get_column("value").to_list() == pytest.approx([0.25] * 2)


def test_launches_that_the_device_waits_for_are_found() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, 5):
        with host.step(number):
            for _ in range(10):
                host.spend(20_000)
                host.launch(stream, "tiny", 5_000)
    linked = scene.linked()
    gain = int(launch_bound(linked).get_column("gain_ns").sum())
    share = metrics(linked, only=["launch_bound_share"]).item(0, "value")
    assert share == pytest.approx(gain / int(step_times(linked).get_column("span_ns").sum()), rel=0.1)
    assert share > 0.5


def test_a_device_whose_queue_is_full_waits_for_no_launch() -> None:
    assert metrics(clean(steps=4).linked(), only=["launch_bound_share"]).item(0, "value") < 0.02


def test_shares_are_of_the_time_of_all_devices(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path, [clean(steps=4, rank=rank, world_size=2) for rank in range(2)])
    job = open(folder)
    spans = step_times(job)
    share = int(spans.get_column("compute_ns").sum()) / int(spans.get_column("span_ns").sum())
    assert value(job, "compute_share") == pytest.approx(share)
    scene = clean(steps=4, rank=0, world_size=2)
    computing = [event.dur for event in scene.of_category("kernel") if "nccl" not in event.name]
    assert spans.filter(pl.col("rank") == 0).get_column("compute_ns").sum() == sum(computing)
