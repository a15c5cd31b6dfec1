"""Two real ranks over gloo, of which rank 1 sleeps in each step: it is the straggler, and the host did nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.integration.calm import shared_capture
from tests.integration.running import run_script
from tracebraid.model.answers.job import LateCause

pytest.importorskip("torch")
pytestmark = [pytest.mark.full, pytest.mark.torch]

ACTIVE, SLEEP_NS = 9, 50_000_000
APART_NS = 300_000
"""On a calm machine the ranks leave an all-reduce 0.27 ms after each other."""


def capture(folder: Path, **env: str) -> None:
    done = run_script("straggler.py", folder, folder.with_name(f"{folder.name}_store"), **env)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tracebraid.Job:
    return tracebraid.open(shared_capture(tmp_path_factory, "straggler", capture, apart, APART_NS))


def apart(folder: Path) -> float:
    """How long after each other the ranks left an all-reduce, the median of all, in ns: other work held one up."""
    captured = tracebraid.open(folder)
    ends = [
        captured[rank]
        .timeline.events.filter(pl.col("name").cast(pl.String) == "gloo:all_reduce")
        .select((pl.col("ts_ns") + pl.col("dur_ns")).sort())
        .to_series()
        for rank in captured.ranks
    ]
    between = (ends[1] - ends[0]).abs().median() if len(ends[0]) == len(ends[1]) else None
    return between if isinstance(between, float) else float("inf")


def test_the_sleeping_rank_is_the_straggler(job: tracebraid.Job) -> None:
    found = tracebraid.analyses.stragglers(job).filter(pl.col("systematic"))
    assert found.select("rank", "cause").rows() == [(1, LateCause.HOST_WITHOUT_EVENTS.value)]
    assert found.item(0, "mean_ns") > SLEEP_NS / 2
    assert found.item(0, "cause_share") > 0.5


def test_the_sleeps_are_found(job: tracebraid.Job) -> None:
    """Of most steps: a busy machine makes ranks late on its own, and the first step may begin before the recording."""
    late = tracebraid.analyses.late_arrivals(job).filter(pl.col("lateness_ns") > SLEEP_NS / 2)
    without_events = late.filter(pl.col("cause") == LateCause.HOST_WITHOUT_EVENTS.value)
    slept = without_events.filter(pl.col("rank") == 1)
    assert without_events.height - slept.height <= ACTIVE // 3
    assert slept.get_column("step").n_unique() >= ACTIVE - 3
    assert (slept.get_column("difference_ns") > SLEEP_NS / 2).all()


def test_with_stacks_the_function_is_named(tmp_path: Path) -> None:
    """In most steps in which it is found: with stacks, a busy machine makes rank 0 late as well."""
    capture(tmp_path / "stacks", STACKS="1")
    late = tracebraid.analyses.late_arrivals(tracebraid.open(tmp_path / "stacks"))
    slept = late.filter((pl.col("rank") == 1) & (pl.col("lateness_ns") > SLEEP_NS / 2))
    assert slept.get_column("step").n_unique() >= ACTIVE // 3
    named = slept.filter(
        (pl.col("cause") == LateCause.PYTHON.value) & (pl.col("name") == "<built-in function sleep>")
    )
    assert named.height > slept.height / 2


def test_rank_0_waits_for_rank_1(job: tracebraid.Job) -> None:
    waits = tracebraid.analyses.rank_waits(job)
    waited = waits.filter(rank=0, waited_for=1).get_column("waiting_ns").sum()
    assert waited > (ACTIVE - 1) * SLEEP_NS * 0.8
    assert waits.filter(rank=1, waited_for=0).get_column("waiting_ns").sum() < waited / 2
    steps = tracebraid.analyses.rank_steps(job)
    assert steps.get_column("waiting_ns").sum() == steps.get_column("caused_ns").sum()
