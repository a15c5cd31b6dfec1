"""The timeline of a whole job: clocks, collectives, counters, the critical path, and bad input."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.linked_ranks import linked_ranks
from tests.perfetto_trace import Shown, shown_file
from tests.planted import Host, PlannedJob, Scene, write_ranks
from tests.planted.scenes import clean
from tracebraid.analysis.collectives.transfers import collective_ranks, collectives
from tracebraid.api.exports.job_facts import collective_rates
from tracebraid.errors import ArgumentError, InputError, OutputError
from tracebraid.model.engine import Job
from tracebraid.model.expressions import as_text
from tracebraid.model.finding_code import FindingCode

_PATH = "critical path"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks on hosts whose clocks are 5 ms apart, three steps with two collectives each."""
    job = PlannedJob(2, (Host("a", ahead_ns=77), Host("b", ahead_ns=-5_000_000)))
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000)
            job.collective("allreduce", transfer=50_000, nelems=1 << 20)
            job.compute(30_000)
            job.collective("_allgather_base", transfer=7_000)
    return job.write(tmp_path_factory.mktemp("two_ranks"))


@pytest.fixture(scope="module")
def job(folder: Path) -> Job:
    return tracebraid.open(folder)


@pytest.fixture(scope="module")
def exported(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    target = tmp_path_factory.mktemp("exported") / "job.pftrace.gz"
    tracebraid.export(job, target, "perfetto")
    return shown_file(target)


@pytest.mark.slow
def test_every_event_of_every_rank_is_there_once_on_aligned_clocks(job: Job, exported: Shown) -> None:
    ranks = linked_ranks(job)
    for linked in job:
        events = linked.timeline.events.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
        expected = ranks.aligned(events, "ts_ns").select(as_text("name"), "ts_ns", "dur_ns").rows()
        found = exported.of(f"rank {linked.rank}")
        assert Counter((s.name, s.ts, s.dur or 0) for s in found) == Counter(expected)


def test_the_parts_of_a_collective_share_a_flow(job: Job, exported: Shown) -> None:
    """All of them, and nothing else has it; the ranks' own flows have two ends each."""
    ends = defaultdict(list)
    for slice_ in exported.slices:
        for flow in slice_.flows:
            ends[flow].append((slice_.track.pid, slice_.ts, slice_.name))
    across = [sorted(found) for found in ends.values() if len({pid for pid, _, _ in found}) > 1]
    members = linked_ranks(job).members.filter(pl.col("collective").is_not_null())
    expected = [
        sorted(
            (rank + 1, start, kernel)
            for rank, start, kernel in rows.select("rank", "start_ns", "kernel").rows()
        )
        for _, rows in members.group_by("collective")
    ]
    assert sorted(across) == sorted(expected)
    assert len(across) == 6
    assert {len(found) for found in ends.values()} == {2}


def test_the_critical_path_has_a_track_of_its_own(job: Job, exported: Shown) -> None:
    segments = tracebraid.critical_path(job, replays=0).segments
    found = exported.of(_PATH)
    assert Counter((s.name, s.category, s.ts, s.dur) for s in found) == Counter(
        segments.select(as_text("name", "kind"), "start_ns", "duration_ns").rows()
    )
    assert {s.args["step"] for s in found} == set(segments.get_column("step"))


@pytest.mark.slow
def test_counters_are_the_answers_of_the_analyses(tmp_path: Path) -> None:
    scene = clean()
    job = tracebraid.open(write_ranks(tmp_path, [scene]))
    tracebraid.export(job, tmp_path / "x.pftrace", "perfetto")
    counters = shown_file(tmp_path / "x.pftrace").counters
    linked = job[0]
    queue = tracebraid.analyses.queue_series(linked)
    memory = tracebraid.analyses.memory_timeline(linked).filter(pl.col("device") == "0")
    copies = tracebraid.analyses.copy_bandwidth_series(linked)
    expected = {
        "1: queue, device 0 stream 7": queue.select("ts_ns", "length"),
        "1: memory allocated, device 0": memory.select("ts_ns", "allocated_bytes"),
        "1: memory reserved, device 0": memory.select("ts_ns", "reserved_bytes").drop_nulls(),
        f"1: {copies.item(0, 'name')}, device 0": copies.select("ts_ns", "bytes_per_s"),
    }
    assert all(frame.height > 0 for frame in expected.values())
    for name, frame in expected.items():
        assert counters[name] == frame.sort("ts_ns", maintain_order=True).rows(), name


def test_occupancy_holds_from_a_kernels_start_to_its_end(tmp_path: Path) -> None:
    scene = Scene()
    for start, percent in ((0, 50), (10, 25)):
        scene.raw(
            {
                "ph": "X",
                "cat": "kernel",
                "name": "k",
                "pid": 0,
                "tid": 7,
                "ts": start,
                "dur": 10,
                "args": {"device": 0, "stream": 7, "est. achieved occupancy %": percent},
            }
        )
    job = tracebraid.open(write_ranks(tmp_path, [scene]))
    tracebraid.export(job, tmp_path / "x.pftrace", "perfetto")
    (values,) = shown_file(tmp_path / "x.pftrace").counters.values()
    assert [value for _, value in values] == [50.0, 0.0, 25.0, 0.0]
    assert np.diff([ts for ts, _ in values]).tolist() == [10_000, 0, 10_000]


def test_the_bandwidth_of_collectives_moves_their_bytes(job: Job) -> None:
    """Over time it adds up to bus bandwidth times transfer, of each rank; nothing remains behind the last end."""
    ranks = linked_ranks(job)
    rates = collective_rates(ranks)
    lasted = pl.col("ts_ns").shift(-1) - pl.col("ts_ns")
    moved = rates.group_by("rank", maintain_order=True).agg(
        (pl.col("bytes_per_s") * lasted).sum().alias("moved"), pl.col("bytes_per_s").last()
    )
    parts = collective_ranks(ranks).join(
        collectives(ranks).select("collective", "bus_bytes_per_s"), on="collective"
    )
    expected = parts.group_by("rank").agg((pl.col("bus_bytes_per_s") * pl.col("transfer_ns")).sum())
    assert moved.get_column("bytes_per_s").to_list() == [0.0, 0.0]
    for rank, found, _ in moved.rows():
        assert found == pytest.approx(expected.filter(pl.col("rank") == rank).item(0, 1))


@pytest.mark.slow
def test_a_step_of_a_rank_has_its_events_alone(job: Job, exported: Shown, tmp_path: Path) -> None:
    options = tracebraid.ExportOptions(rank=1, step="2")
    tracebraid.export(job, tmp_path / "x.pftrace", "perfetto", options)
    found = shown_file(tmp_path / "x.pftrace")
    names = {process.process_name for process in found.processes.values()}
    assert names == {"rank 1", _PATH}
    whole = Counter((s.name, s.dur) for s in exported.of("rank 1"))
    part = Counter((s.name, s.dur) for s in found.of("rank 1"))
    assert part <= whole
    steps = [slice_ for slice_ in found.of("rank 1") if slice_.category == "user_annotation"]
    assert [slice_.name for slice_ in steps if slice_.name.startswith("ProfilerStep")] == ["ProfilerStep#2"]


@pytest.mark.slow
def test_both_formats_count_the_same(job: Job, exported: Shown, tmp_path: Path) -> None:
    done = tracebraid.export(job, tmp_path / "x.json", "chrome")
    events = json.loads((tmp_path / "x.json").read_bytes())["traceEvents"]
    assert done.rows == len(exported.slices) == sum(event["ph"] in "Xi" for event in events)
    assert sum(event["ph"] == "C" for event in events) == sum(map(len, exported.counters.values()))


@pytest.mark.full
@pytest.mark.slow
def test_equal_jobs_give_equal_bytes(folder: Path, tmp_path: Path) -> None:
    for name in ("a.pftrace.gz", "b.pftrace.gz"):
        tracebraid.export(tracebraid.open(folder), tmp_path / name, "perfetto")
    assert (tmp_path / "a.pftrace.gz").read_bytes() == (tmp_path / "b.pftrace.gz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("to", ["perfetto", "chrome"])
def test_an_unreadable_rank_is_left_out(to: str, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    traces = write_ranks(tmp_path / "traces", [clean(1, rank, 2) for rank in (0, 1)])
    job = tracebraid.open(traces, unreadable="skip")
    (traces / "kineto_trace_1.json").write_bytes(b'{"traceEvents": 5}')
    done = tracebraid.export(job, tmp_path / f"x.{to}", to)
    assert [finding.code for finding in done.findings].count(FindingCode.RANK_UNREADABLE) == 1
    content = (tmp_path / f"x.{to}").read_bytes()
    assert b"rank 0" in content
    assert b"rank 1" not in content


def test_what_cannot_be_exported_leaves_no_file(job: Job, tmp_path: Path) -> None:
    target = tmp_path / "x.pftrace"
    with pytest.raises(ArgumentError):
        tracebraid.export(job, target, "perfetto", tracebraid.ExportOptions(rank=9))
    with pytest.raises(ArgumentError):
        tracebraid.export(job, target, "perfetto", tracebraid.ExportOptions(step="77"))
    with pytest.raises(OutputError):
        tracebraid.export(job, tmp_path, "perfetto")
    target.write_bytes(b"here")
    with pytest.raises(OutputError):
        tracebraid.export(job, target, "chrome")
    assert [path.name for path in tmp_path.iterdir()] == ["x.pftrace"]
    assert target.read_bytes() == b"here"


def test_an_error_in_the_middle_leaves_no_file(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise InputError("trace", "it is gone", "Look for it")

    monkeypatch.setattr("tracebraid.api.exports.perfetto.rank_timeline", failing)
    with pytest.raises(InputError):
        tracebraid.export(job, tmp_path / "x.pftrace", "perfetto")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("events", [0, 1])
@pytest.mark.parametrize("to", ["perfetto", "chrome"])
def test_a_trace_of_hardly_anything_is_exported(events: int, to: str, tmp_path: Path) -> None:
    scene = Scene()
    if events:
        with scene.thread().op("aten::add"):
            pass
    job = tracebraid.open(write_ranks(tmp_path, [scene]))
    done = tracebraid.export(job, tmp_path / f"x.{to}", to)
    assert (done.rows or 0) >= events
    if to == "perfetto":
        assert len(shown_file(tmp_path / "x.perfetto").of("rank 0")) == events
