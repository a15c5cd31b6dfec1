"""The job that is measured is what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from benchmarks.analyses import job_rows
from benchmarks.made_jobs import RANKS_PER_HOST, SKEW_NS, job_of_copies, write_job
from benchmarks.measure import Measured
from tests.builders import kineto_text, op, write


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    header = {"distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2}}
    path = tmp_path / "trace.json"
    write(path, kineto_text([op("aten::add", 0, 1)], header))
    return path


def test_the_files_are_of_all_ranks_with_a_clock_for_each_host(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    write_job(trace, folder, RANKS_PER_HOST + 1)
    job = tracebraid.open(folder)
    assert job.ranks == list(range(RANKS_PER_HOST + 1))
    timelines = [job[rank].timeline for rank in job.ranks]
    assert {timeline.world_size for timeline in timelines} == {RANKS_PER_HOST + 1}
    starts = [timeline.events.get_column("ts_ns").item(0) for timeline in timelines]
    assert starts[RANKS_PER_HOST] - starts[0] == SKEW_NS
    assert len(set(starts[:RANKS_PER_HOST])) == 1


def test_a_trace_of_no_job_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "trace.json", kineto_text([op("aten::add", 0, 1)]))
    with pytest.raises(ValueError, match="distributedInfo"):
        write_job(tmp_path / "trace.json", tmp_path, 2)


def test_copies_have_their_own_rank_and_clock(trace: Path) -> None:
    job = job_of_copies(tracebraid.read_timeline(trace), RANKS_PER_HOST + 1)
    starts = [linked.timeline.events.get_column("ts_ns").item(0) for linked in job]
    assert [linked.rank for linked in job] == job.ranks
    assert len(set(starts)) == len(starts)


def test_rows_say_the_time_of_a_rank_and_the_ratio_of_a_doubling() -> None:
    def measured(ranks: int) -> Measured:
        return Measured(
            float(ranks), 1.0, 10**6 * ranks, {"first waits": 0.5 * ranks, "bytes members": 1e3 * ranks}
        )

    row = job_rows({4: measured(4), 16: measured(16)})[0]
    assert row.seconds == 8.0
    assert row.figures["ms a rank"] == 500.0
    assert row.figures["per doubling"] == 2.0
