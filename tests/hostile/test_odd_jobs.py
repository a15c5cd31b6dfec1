"""Traces that are sound JSON and plausible, but odd: what is wrong with them is no figure of an answer."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import Json, call, complete, kernel, kineto_text, op, write
from tests.planted import Scene
from tests.unit.linking.made import linked_of
from tracebraid.api.reporting.options import chosen_steps
from tracebraid.errors import ArgumentError, InputError
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.linking.nesting import host_tree
from tracebraid.model.chakra.network_text import network_of_text
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.timeline import Timeline
from tracebraid.reports.terminal import kernels_table

NOW_NS = 1_780_000_000_000_000_000


def timeline(folder: Path, events: list[Json], base_ns: int = NOW_NS) -> Timeline:
    return read_timeline(
        write(folder / "kineto_trace_0.json", kineto_text(events, {"baseTimeNanoseconds": base_ns}))
    )


def memory(size: int, total: int, reserved: int, ts: int = 1) -> Json:
    args = {"Bytes": size, "Addr": 7, "Device Id": 0, "Device Type": 1}
    totals = {"Total Allocated": total, "Total Reserved": reserved}
    return {**complete("[memory]", "cpu_instant_event", ts, 0, 1, 1, {**args, **totals}), "ph": "i"}


@pytest.mark.parametrize(
    "ask",
    [
        tracebraid.steps,
        tracebraid.collectives,
        tracebraid.metrics,
        lambda job: tracebraid.diff(job, job),
        lambda job: job.sql("select count(*) from events"),
        lambda job: list(job.take({"rank": lambda linked: linked.rank})),
        list,
        lambda job: [job[rank] for rank in job.ranks],
    ],
    ids=["steps", "collectives", "metrics", "diff", "sql", "take", "iteration", "ranks"],
)
def test_two_traces_of_one_rank_are_no_job(tmp_path: Path, ask: object) -> None:
    """Each would count twice: the second trace is named, whatever is asked."""
    for number in (0, 1):
        scene = Scene(rank=0, world_size=2)
        with scene.thread().step(1):
            pass
        write(tmp_path / f"kineto_trace_{number}.json", scene.text())
    with pytest.raises(InputError, match=r"kineto_trace_1\.json: it is of rank 0, as is another file here"):
        ask(tracebraid.open(tmp_path))  # type: ignore[operator]


@pytest.mark.parametrize("number", ["9" * 5_000, "1" + "0" * 5_000])
def test_numbers_of_thousands_of_digits_are_none(tmp_path: Path, number: str) -> None:
    """Python converts no text of so many digits, and says so with an error of its own."""
    for rank in (0, 1):
        groups = [{"pg_name": name, "pg_desc": "x", "ranks": []} for name in (number, "7")]
        info = {"rank": number, "world_size": number, "pg_config": groups}
        events = [op("gloo:all_reduce", 1, 2), op(f"ProfilerStep#{number}", 0, 9)]
        write(tmp_path / f"kineto_trace_{rank}.json", kineto_text(events, {"distributedInfo": info}))
    found = tracebraid.check(tmp_path)
    assert [checked.rank for checked in found.ranks] == [0, 1]
    assert tracebraid.open(tmp_path)[1].rank == 1
    with pytest.raises(ArgumentError, match="there is no step"):
        chosen_steps(pl.DataFrame({"step": [f"ProfilerStep#{number}"]}), "1-3")


@pytest.mark.parametrize("part", ["ring:" + "9" * 5_000, "ring:2," + "9" * 5_000])
def test_networks_of_thousands_of_digits_are_refused(part: str) -> None:
    with pytest.raises(ArgumentError):
        network_of_text(part)


def test_an_event_centuries_behind_the_base_keeps_its_own_time(tmp_path: Path) -> None:
    """No sum of times may pass the end of the clock, nor the moments that stand for never."""
    found = timeline(tmp_path, [op("a", 1, 2), op("far", 3e15, 9), op("b", 2, 1, cat="python_function")])
    assert found.events.get_column("ts_ns").to_list() == [NOW_NS + 1_000, 3 * 10**18, NOW_NS + 2_000]
    (finding,) = [one for one in found.findings if one.code is FindingCode.BASE_TIME]
    assert "1 times" in str(finding)
    assert host_tree(found).height == 3


@pytest.mark.parametrize("base_ns", [2**62, 2**63 - 1])
def test_a_base_time_behind_all_others_is_none(tmp_path: Path, base_ns: int) -> None:
    found = timeline(tmp_path, [op("a", 1, 2)], base_ns)
    assert found.events.get_column("ts_ns").to_list() == [1_000]
    assert [finding.code for finding in found.findings] == [FindingCode.BASE_TIME]


def test_a_duration_of_years_is_none(tmp_path: Path) -> None:
    """A thousand of them could not be added up."""
    found = timeline(tmp_path, [op("a", 1, 9.9e12), op("b", 1, 1.1e13)])
    assert found.events.get_column("dur_ns").to_list() == [9_900_000_000_000_000, 0]
    assert [finding.code for finding in found.findings] == [FindingCode.EVENT_DURATION]


def test_sizes_that_no_device_holds_are_in_no_sum() -> None:
    linked = linked_of([memory(2**62, 2**62, 2**62, ts) for ts in (1, 2, 3)] + [memory(512, 512, 2048, 4)])
    assert tracebraid.memory_timeline(linked).get_column("size_bytes").to_list() == [512]
    assert linked.timeline.tables["extra_args"].height == 9


def test_less_reserved_than_allocated_is_no_fragmentation() -> None:
    row = tracebraid.allocator(linked_of([memory(4096, 4096, 1024)])).row(0, named=True)
    assert (row["unused_at_peak_bytes"], row["fragmentation"]) == (None, None)


def test_kernels_of_doubtful_work_alone_have_a_row_without_a_mean() -> None:
    """The launch's own kernel is missing: nothing that is left counts in means."""
    found = tracebraid.kernels(linked_of([call("cudaLaunchKernel", 0, 5, 1), kernel("gemm", 8, 2, 2)]))
    assert found.get_column("mean_ns").to_list() == [None]
    assert list(kernels_table(found, 5).columns[3].cells) == ["-"]
