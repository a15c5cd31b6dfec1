"""Changes of communication and of ranks: each predicts the job in which it was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.planted import PlannedJob
from tracebraid.api.graphing import dependency_graph

LAUNCH = "cudaLaunchKernelExC"

ALPHA_NS, NS_PER_BYTE = 10_000, 2
SIZES = (1_000, 4_000, 2_000, 8_000)
"""Elements, of 4 bytes, of the collective of each step."""
ROUNDING_NS = 5


def transfer(elements: int, alpha: float = 1.0, slope: float = 1.0) -> int:
    return round(ALPHA_NS * alpha + 4 * elements * NS_PER_BYTE * slope)


def planted(
    folder: Path,
    alpha: float = 1.0,
    slope: float = 1.0,
    slow_ns: int = 0,
    parts: int = 1,
    launch_ns: int = 0,
) -> tracebraid.Job:
    """A job whose steps compute, then reduce, in so many parts; the last rank is slower."""
    ranks = 3
    job = PlannedJob(ranks)
    for number, elements in enumerate(SIZES, start=1):
        with job.step(number):
            for rank in range(ranks):
                job.threads[rank].run("aten::mul", 200_000 + slow_ns * (rank == ranks - 1))
                job.threads[rank].spend(launch_ns)
            for _ in range(parts):
                job.collective(nelems=elements // parts, transfer=transfer(elements // parts, alpha, slope))
    folder.mkdir()
    return tracebraid.open(job.write(folder))


def steps(found: tracebraid.WhatIf, column: str) -> list[int]:
    return found.steps.filter(pl.col("rank").is_null()).get_column(column).to_list()


def close(found: Sequence[int], truth: Sequence[int]) -> bool:
    return all(abs(a - b) <= ROUNDING_NS for a, b in zip(found, truth, strict=True))


@pytest.mark.parametrize(
    ("change", "alpha", "slope"),
    [
        ("bandwidth 2", 1.0, 0.5),
        ("latency 0.5", 0.5, 1.0),
        ("ranks 9", 8 / 2, (8 / 9) / (2 / 3)),
    ],
)
def test_costs_of_communication(tmp_path: Path, change: str, alpha: float, slope: float) -> None:
    found = tracebraid.what_if(planted(tmp_path / "a"), change)
    truth = tracebraid.what_if(planted(tmp_path / "b", alpha, slope), "scale 1")
    assert close(steps(found, "after_ns"), steps(truth, "before_ns"))
    assert not close(steps(found, "before_ns"), steps(found, "after_ns"))
    assert tracebraid.WhatIfNote.LATENCY_UNKNOWN not in found.notes


def test_merged_collectives_have_one_latency(tmp_path: Path) -> None:
    """The calls of the host stay, and the bucket is launched by the last of them."""
    graph = dependency_graph(planted(tmp_path / "a", parts=2))
    calls = graph.activities.filter(pl.col("rank") == 0, pl.col("name").cast(pl.String) == LAUNCH)
    first, second = calls.get_column("start_ns").sort()[:2]
    found = tracebraid.what_if(graph, "merge 25MB")
    truth = tracebraid.what_if(planted(tmp_path / "b", launch_ns=second - first), "scale 1")
    assert close(steps(found, "after_ns"), steps(truth, "before_ns"))
    gains = np.subtract(steps(found, "before_ns"), steps(found, "after_ns"))
    assert (np.abs(gains - (ALPHA_NS - (second - first))) <= ROUNDING_NS).all()


def test_a_rank_as_fast_as_the_median(tmp_path: Path) -> None:
    found = tracebraid.what_if(planted(tmp_path / "a", slow_ns=70_000), "as-median rank=2")
    truth = tracebraid.what_if(planted(tmp_path / "b"), "scale 1")
    assert close(steps(found, "after_ns"), steps(truth, "before_ns"))
    assert found.gain_ns == pytest.approx(70_000, rel=0.01)


def test_without_a_fit_the_answer_says_so(tmp_path: Path) -> None:
    job = PlannedJob(2)
    with job.step(1):
        job.compute(10_000)
        job.collective(transfer=80_000)
    traces = tracebraid.open(job.write(tmp_path))
    found = tracebraid.what_if(traces, "bandwidth 2")
    assert tracebraid.WhatIfNote.LATENCY_UNKNOWN in found.notes
    assert found.gain_ns == 40_000
    with pytest.raises(tracebraid.ArgumentError):
        tracebraid.what_if(traces, "latency 0.5")


def on_hosts(folder: Path, parts: int, transfer_ns: int) -> tracebraid.Job:
    """Ranks on CPUs, which wait for each part of what they reduce before they ask for the next."""
    job = PlannedJob(2, devices=[])
    for number in range(1, 4):
        with job.step(number):
            job.compute(200_000)
            for _ in range(parts):
                job.collective("allreduce", nelems=1_000, transfer=transfer_ns)
    folder.mkdir()
    return tracebraid.open(job.write(folder))


def test_merged_collectives_of_hosts_are_waited_for_once(tmp_path: Path) -> None:
    """No alpha is known: transfers take as long together, and what each wait costs beside its transfer is gained."""
    parts, transfer_ns = 4, 100_000
    found = tracebraid.what_if(on_hosts(tmp_path / "a", parts, transfer_ns), "merge 25MB")
    truth = tracebraid.what_if(on_hosts(tmp_path / "b", 1, parts * transfer_ns), "scale 1")
    overhead = np.subtract(steps(found, "after_ns"), steps(truth, "before_ns"))
    assert (overhead >= 0).all()
    assert (overhead <= np.subtract(steps(found, "before_ns"), steps(truth, "before_ns"))).all()
    assert tracebraid.WhatIfNote.LATENCY_UNKNOWN in found.notes


def test_of_merged_collectives_times_below_the_fitted_latency_make_up_for_those_above(tmp_path: Path) -> None:
    """Their times do not depend on their sizes: a bucket takes as long as one of them."""
    job = PlannedJob(2)
    for number in range(1, 5):
        with job.step(number):
            job.compute(10_000)
            for elements, microseconds in ((1_000, 50), (2_000, 150), (2_000, 50), (1_000, 150)):
                job.collective(nelems=elements, transfer=microseconds * 1_000)
    found = tracebraid.what_if(tracebraid.open(job.write(tmp_path)), "merge 25MB")
    before_ns, after_ns = found.changes.select("before_ns", "after_ns").row(0)
    assert after_ns == pytest.approx(before_ns / 4, rel=0.01)
