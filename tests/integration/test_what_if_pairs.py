"""Sends and receives of a captured pipeline in the dependency graph: threads wait for them where they stand still."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tracebraid.analysis.collectives.members import members

PIPELINE = Path(__file__).parents[1] / "captures" / "pipeline2"


@pytest.fixture(scope="module")
def job() -> tracebraid.Job:
    return tracebraid.open(PIPELINE)


def gains_ns(job: tracebraid.Job, change: str) -> dict[int, int]:
    """What each rank gains in its step."""
    steps = tracebraid.what_if(job, change).steps.filter(pl.col("rank").is_not_null())
    return dict(steps.select("rank", "gain_ns").iter_rows())


def test_without_receives_each_rank_gains_what_it_waits_there(job: tracebraid.Job) -> None:
    gained = gains_ns(job, "remove collective=recv")
    for linked in job:
        received = members(linked).filter(pl.col("type") == "recv")
        # These ranks do nothing else while they receive; senders no longer wait for them, either.
        waited = received.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
        assert waited <= gained[linked.rank] <= 1.25 * waited


def test_sends_that_are_noted_late_hold_nobody(job: tracebraid.Job) -> None:
    # Rank 0 looks at its sends at the end of its step, behind its own work, which stays.
    steps = tracebraid.what_if(job, "remove collective=*").steps.filter(pl.col("rank") == 0)
    assert steps.get_column("after_ns").item() > 1_500_000
    assert (
        gains_ns(job, "remove collective=recv")[0] > gains_ns(job, "scale 0.5 collective=recv")[0] > 2_000_000
    )
