"""Two real ranks over gloo, of which rank 1 sleeps in each step: it is the straggler, and the host did nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.integration.running import run_script
from tracebraid.model.answers import LateCause

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

ACTIVE, SLEEP_NS = 9, 50_000_000


def captured(folder: Path, **env: str) -> tracebraid.Job:
    done = run_script("straggler.py", folder / "traces", folder / "store", **env)
    assert done.returncode == 0, done.stderr
    return tracebraid.open(folder / "traces")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tracebraid.Job:
    return captured(tmp_path_factory.mktemp("straggler"))


def test_the_sleeping_rank_is_the_straggler(job: tracebraid.Job) -> None:
    found = tracebraid.stragglers(job).filter(pl.col("systematic"))
    assert found.select("rank", "cause").rows() == [(1, LateCause.HOST_WITHOUT_EVENTS.value)]
    assert found.item(0, "mean_ns") > SLEEP_NS / 2
    assert found.item(0, "cause_share") > 0.5


def test_each_sleep_is_found_but_for_that_before_the_recording(job: tracebraid.Job) -> None:
    late = tracebraid.late_arrivals(job).filter(pl.col("lateness_ns") > SLEEP_NS / 2)
    own = late.filter(pl.col("origin_rank").is_null() & (pl.col("cause") != LateCause.BEFORE_RECORDING.value))
    assert set(own.select("rank", "cause").rows()) == {(1, LateCause.HOST_WITHOUT_EVENTS.value)}
    assert own.get_column("step").n_unique() >= ACTIVE - 1


def test_rank_0_waits_for_rank_1(job: tracebraid.Job) -> None:
    waits = tracebraid.rank_waits(job)
    waited = waits.filter(rank=0, waited_for=1).get_column("waiting_ns").sum()
    assert waited > (ACTIVE - 1) * SLEEP_NS * 0.8
    assert waits.filter(rank=1, waited_for=0).get_column("waiting_ns").sum() < waited / 2
    steps = tracebraid.rank_steps(job)
    assert steps.get_column("waiting_ns").sum() == steps.get_column("caused_ns").sum()
