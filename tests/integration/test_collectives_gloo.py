"""Collectives of two ranks over gloo, against what the ranks time around their calls."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from statistics import median, quantiles
from typing import TypeAlias

import polars as pl
import pytest

import tracebraid
from tests.integration.calm import shared_capture
from tests.integration.running import run_script
from tracebraid.model.collectives import TransferMethod
from tracebraid.model.engine import Job

pytest.importorskip("torch")
pytestmark = [pytest.mark.full, pytest.mark.torch]

Call: TypeAlias = tuple[int, int]
"""Start and end of a call, in ns."""

SIZES = {"large": 4 << 24, "small": 4 << 10, "late": 4 << 11}
SLEEP_NS = 150_000_000
CALM = 0.01
"""Share of a large all-reduce in which a thread wakes another; above it, what the ranks time is not the transfer."""


def capture(folder: Path) -> None:
    done = run_script("timed_collectives.py", folder, folder.with_name(f"{folder.name}_store"))
    assert done.returncode == 0, done.stderr


def disturbance(folder: Path) -> float:
    """How long it takes to wake a thread, of what a large all-reduce takes: gloo's threads are woken in each call."""
    wakes = [end - start for both in calls(folder, "wakes") for start, end in both]
    return quantiles(wakes, n=4)[-1] / median(whole_calls(folder, "large"))


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_capture(tmp_path_factory, "timed", capture, disturbance, CALM)


@pytest.fixture(scope="module")
def job(traces: Path) -> Job:
    return tracebraid.open(traces)


def calls(traces: Path, kind: str) -> list[tuple[Call, Call]]:
    """The calls of both ranks."""
    steps = [json.loads((traces / f"times_{rank}.json").read_text()) for rank in (0, 1)]
    each = [list(chain.from_iterable(step[kind] for step in rank)) for rank in steps]
    return list(zip(*each, strict=True))


def whole_calls(traces: Path, kind: str) -> list[int]:
    """From the later call to the later return: the transfer, the start of gloo's threads, the callers' waking up."""
    return [max(end, other) - max(start, begun) for (start, end), (begun, other) in calls(traces, kind)]


def reduced(job: Job, kind: str) -> pl.DataFrame:
    """The all-reduces of that kind, in their order."""
    found = tracebraid.analyses.collectives(job)
    return found.filter((pl.col("type") == "all_reduce") & (pl.col("size_bytes") == SIZES[kind]))


@pytest.mark.parametrize("kind", SIZES)
def test_every_all_reduce_is_matched_on_the_clock_of_the_host(traces: Path, job: Job, kind: str) -> None:
    found = reduced(job, kind)
    assert found.height == len(calls(traces, kind))
    assert set(found.get_column("transfer_method")) == {TransferMethod.LAST_ARRIVAL.value}
    assert found.get_column("ranks").to_list() == [[0, 1]] * found.height
    assert not found.get_column("is_bound").any()
    assert set(found.get_column("library")) == {"gloo"}


def test_no_transfer_takes_longer_than_the_calls_that_enclose_it(traces: Path, job: Job) -> None:
    transfers = reduced(job, "large").get_column("transfer_ns").to_list()
    timed = whole_calls(traces, "large")
    longest = [1.01 * ns for ns in timed]  # the recorder's clock and the ranks' are not quite the same
    assert [pair for pair in zip(transfers, longest, strict=True) if not 0 < pair[0] <= pair[1]] == []


def test_bandwidth_of_a_large_all_reduce_is_what_the_ranks_time(traces: Path, job: Job) -> None:
    """Within 5 percent, or what waking up four threads takes on a busy machine."""
    timed = whole_calls(traces, "large")
    of_ranks = SIZES["large"] / median(timed) * 1e9
    found = tracebraid.analyses.collective_bandwidth(job).filter(pl.col("size_bytes") == SIZES["large"])
    assert found.item(0, "count") == len(timed)
    off = max(0.05, 4 * disturbance(traces))
    assert found.item(0, "algorithm_bytes_per_s") == pytest.approx(of_ranks, rel=off)
    # 2 (n - 1) / n is 1 for two ranks.
    assert found.item(0, "bus_bytes_per_s") == found.item(0, "algorithm_bytes_per_s")


def test_rank_0_waits_for_rank_1_while_that_sleeps(traces: Path, job: Job) -> None:
    members = tracebraid.analyses.collective_ranks(job).filter(pl.col("in_bytes") == SIZES["late"])
    waiting = members.filter(pl.col("rank") == 0)
    assert waiting.get_column("waited_for").to_list() == [1] * waiting.height
    # As the ranks time it: from the call of rank 0 to that of rank 1.
    timed = [begun - start for (start, _), (begun, _) in calls(traces, "late")]
    assert median(timed) > 0.9 * SLEEP_NS
    off = max(0.1, 4 * disturbance(traces))
    assert waiting.get_column("waiting_ns").median() == pytest.approx(median(timed), rel=off)
    assert members.filter(pl.col("rank") == 1).get_column("waiting_ns").sum() == 0


def test_rank_1_causes_most_of_the_waiting(job: Job) -> None:
    totals = (
        tracebraid.analyses.collective_totals(job)
        .group_by("rank")
        .agg(pl.col("caused_ns").sum())
        .sort("rank")
    )
    by_0, by_1 = totals.get_column("caused_ns")
    assert by_1 > by_0
    assert by_1 > 6 * 0.5 * SLEEP_NS


def test_a_large_all_reduce_tells_bandwidth_and_small_ones_latency(job: Job) -> None:
    (fit,) = (
        tracebraid.analyses.collective_fit(job)
        .filter((pl.col("type") == "all_reduce") & pl.col("beta_bytes_per_s").is_not_null())
        .iter_rows(named=True)
    )
    small, large = (reduced(job, kind).get_column("transfer_ns").median() for kind in ("small", "large"))
    assert isinstance(small, float)
    assert isinstance(large, float)
    assert fit["sizes"] == len(SIZES)
    assert fit["alpha_ns"] < large / 5
    assert 1 / 3 < fit["beta_bytes_per_s"] / (SIZES["large"] / large * 1e9) < 3
