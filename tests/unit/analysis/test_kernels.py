"""Kernels: which take the most time, who launched them, how long they last and what lies between them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import Json, call, kernel, op
from tests.cases import cases
from tests.planted import Scene, device_scene
from tests.unit.linking.made import linked_of
from tracebraid.analyses import (
    kernel_durations,
    kernel_families,
    kernel_pace,
    kernels,
    kernels_by_op,
    launchers,
    ops,
    short_kernels,
)
from tracebraid.analysis.kernels.kernels import SHORT_KERNEL_NS
from tracebraid.model.linked_trace import LinkedTrace


def test_the_longest_in_total_comes_first() -> None:
    linked = linked_of([kernel("once", 0, 30, 1), kernel("often", 50, 20, 2), kernel("often", 80, 25, 3)])
    table = kernels(linked)
    assert table.select("name", "count", "total_ns", "mean_ns", "min_ns", "max_ns").rows() == [
        ("often", 2, 45_000, 22_500.0, 20_000, 25_000),
        ("once", 1, 30_000, 30_000.0, 30_000, 30_000),
    ]


def test_shares_add_up_to_one() -> None:
    linked = linked_of([kernel(f"k{i}", 10 * i, i + 1, i) for i in range(7)])
    assert kernels(linked).get_column("share").sum() == pytest.approx(1.0)
    assert kernels(linked).get_column("share")[0] == pytest.approx(7 / 28)


@cases(
    "events, columns, rows",
    {
        "two kinds of a name": (
            [kernel("x", 0, 30, 1), kernel("x", 50, 20, 2, cat="gpu_memcpy")],
            "kind name",
            [("compute", "x"), ("memory", "x")],
        ),
        "no duration, no share": ([kernel("x", 0, 0, 1)], "share", [(0.0,)]),
        "one run, no spread": ([kernel("k", 0, 10, 1)], "std_ns", [(None,)]),
    },
)
def test_rows_of_few_kernels(events: list[Json], columns: str, rows: list[tuple[object, ...]]) -> None:
    assert kernels(linked_of(events)).select(columns.split()).rows() == rows


STEPS = [op(f"ProfilerStep#{i}", 100 * i, 100, cat="user_annotation") for i in (8, 9, 10, 11)]


@cases(
    "events, steps",
    {
        "launched in another": ([call("launch", 890, 2, 1), kernel("k", 950, 30, 1)], ["ProfilerStep#8"]),
        # It was launched before the window: to the step in which it ran it is no cost.
        "of an unknown launch": ([kernel("k", 950, 30, 1)], [None]),
        "of an op by external id": (
            [op("mm", 910, 10, External_id=5), kernel("k", 1350, 30, 1, **Json({"External id": 5}))],
            ["ProfilerStep#9"],
        ),
        "in the order of time": (
            [e for s in (8, 9, 10) for e in (call("l", 100 * s, 2, s), kernel("k", 100 * s + 5, 5, s))],
            ["ProfilerStep#8", "ProfilerStep#9", "ProfilerStep#10"],
        ),
    },
)
def test_a_kernel_belongs_to_the_step_of_its_launch(events: list[Json], steps: list[str | None]) -> None:
    assert kernels(linked_of([*STEPS, *events]), per_step=True).get_column("step").to_list() == steps


def test_shares_of_each_step_add_up_to_one() -> None:
    linked = linked_of(
        [
            op("train#1", 0, 100, cat="user_annotation"),
            op("train#2", 100, 100, cat="user_annotation"),
            *(call("launch", 20 * i, 2, i + 1) for i in range(10)),
            *(kernel(f"k{i}", 20 * i + 5, 5 + i, i + 1) for i in range(10)),
        ]
    )
    table = kernels(linked.with_annotation("train"), per_step=True)
    for step in ("train#1", "train#2"):
        assert table.filter(step=step).get_column("share").sum() == pytest.approx(1.0)


def test_the_spread_is_that_of_a_sample() -> None:
    linked = linked_of([kernel("k", 100 * i, d, i) for i, d in enumerate((10, 20, 30, 80))])
    row = kernels(linked).row(0, named=True)
    assert (row["median_ns"], row["p95_ns"]) == (25_000.0, pytest.approx(72_500.0))
    assert row["std_ns"] == pytest.approx(31_091.26, abs=0.01)


def test_the_family_is_that_of_most_of_its_time() -> None:
    linked = linked_of(
        [
            op("aten::mm", 0, 10),
            call("cudaLaunchKernel", 1, 2, 1),
            op("aten::sum", 20, 10),
            call("cudaLaunchKernel", 21, 2, 2),
            kernel("k", 100, 10, 1),
            kernel("k", 200, 11, 2),
        ]
    )
    assert kernels(linked).select("name", "family", "count").rows() == [("k", "reduction", 2)]
    assert kernel_families(linked).select("family", "total_ns", "by_op_ns").rows() == [
        ("reduction", 11_000, 11_000),
        ("gemm", 10_000, 10_000),
    ]


def test_means_leave_out_doubtful_steps_unless_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    doubtful = pl.Series(["ProfilerStep#9"], dtype=pl.String)
    monkeypatch.setattr("tracebraid.analysis.answering.doubtful_steps", lambda *_: doubtful)
    calls = [call("launch", 100 * i + 1, 2, i) for i in (8, 9)]
    events = [*STEPS[:2], *calls, kernel("k", 810, 10, 8), kernel("k", 910, 90, 9)]
    row = kernels(linked_of(events)).row(0, named=True)
    assert (row["count"], row["total_ns"], row["max_ns"]) == (2, 100_000, 90_000)
    assert (row["mean_ns"], row["median_ns"], row["std_ns"]) == (10_000.0, 10_000.0, None)
    assert kernels(linked_of(events), with_doubtful=True).row(0, named=True)["mean_ns"] == 50_000.0
    assert kernels(linked_of(events), per_step=True).get_column("mean_ns").to_list() == [10_000.0, 90_000.0]


def two_ops_and_none() -> LinkedTrace:
    scene, host, stream = device_scene()
    for _ in range(2):
        with host.op("aten::mm"):
            host.launch(stream, "splitKreduce_kernel", 300)
            host.fill(stream, 64, 100)
    with host.annotation("my step"):
        host.launch(stream, "splitKreduce_kernel", 200)
    stream.run("before", 50)
    return scene.linked()


def test_a_kernel_belongs_to_the_innermost_op_around_its_launch() -> None:
    found = kernels_by_op(two_ops_and_none())
    columns = ("op", "op_category", "kind", "family", "family_by", "name", "count", "total_ns")
    assert found.select(columns).rows() == [
        ("aten::mm", "cpu_op", "compute", "gemm", "op", "splitKreduce_kernel", 2, 600),
        ("aten::mm", "cpu_op", "memory", "fill", "kind", "Memset (Device)", 2, 200),
        ("my step", "user_annotation", "compute", "gemm", "name", "splitKreduce_kernel", 1, 200),
        (None, None, "compute", "other", None, "before", 1, 50),
    ]
    assert found.select("mean_ns", "min_ns", "max_ns", "std_ns").row(0) == (300.0, 300, 300, 0.0)
    assert found.get_column("share").sum() == 1.0


def one_of_each() -> list[Json]:
    """Work of 1, 2, 4, 8 and 16 us: by an op, an annotation, a graph inside an op, a call alone, and unknown."""
    return [
        op("ProfilerStep#1", 0, 300, cat="user_annotation"),
        op("mm", 10, 20),
        call("cudaLaunchKernel", 15, 5, 1),
        op("nccl:all_reduce", 40, 20, cat="user_annotation"),
        call("cudaLaunchKernel", 45, 5, 2),
        op("replay", 70, 20),
        call("cudaGraphLaunch", 75, 5, 3),
        call("cudaLaunchKernel", 400, 5, 4),
        *(kernel(f"k{i}", 500 + 20 * i, 2**i, i + 1) for i in range(5)),
    ]


def test_each_device_event_counts_for_one_launcher() -> None:
    table = launchers(linked_of(one_of_each()))
    assert table.select("launcher", "kernels", "device_ns").rows() == [
        ("graph", 1, 4_000),
        ("op", 1, 1_000),
        ("annotation", 1, 2_000),
        ("call", 1, 8_000),
        ("unknown", 1, 16_000),
    ]
    assert table.get_column("share").sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"])
def test_graphs_of_every_api_count(name: str) -> None:
    linked = linked_of([call(name, 0, 5, 1), *(kernel(f"k{i}", 10 * i, 5, 1) for i in range(3))])
    assert launchers(linked).select("launcher", "kernels").rows() == [("graph", 3)]


def test_per_step_what_has_no_launch_is_in_no_step() -> None:
    table = launchers(linked_of(one_of_each()), per_step=True)
    assert table.filter(table["step"].is_null()).select("launcher", "device_ns").rows() == [
        ("call", 8_000),
        ("unknown", 16_000),
    ]
    assert set(table.filter(step="ProfilerStep#1").get_column("launcher")) == {"graph", "op", "annotation"}


def test_the_time_is_that_of_the_kernels_and_of_the_ops() -> None:
    linked = linked_of(one_of_each())
    assert launchers(linked).get_column("device_ns").sum() == kernels(linked).get_column("total_ns").sum()
    with_op = launchers(linked).filter(launchers(linked)["launcher"].is_in(["graph", "op", "annotation"]))
    assert with_op.get_column("device_ns").sum() == ops(linked).get_column("device_self_ns").sum()


def test_device_work_of_no_duration_has_no_share() -> None:
    assert launchers(linked_of([kernel("x", 0, 0, 1)])).get_column("share").to_list() == [0.0]


def test_all_ranks_of_a_job_are_asked(demo: Path) -> None:
    assert tracebraid.analyses.launchers(tracebraid.open(demo)).is_empty()


@cases(
    "durations, rows",
    {
        "all lengths": (
            [0, 1, 2, 4, 5, 10, 19, 20_000, 49_999],
            [
                (0, 1, 1, 0),
                (1, 2, 1, 1),
                (2, 5, 2, 6),
                (5, 10, 1, 5),
                (10, 20, 2, 29),
                (20_000, 50_000, 2, 69_999),
            ],
        ),
        "no length": ([0], [(0, 1, 1, 0)]),
    },
)
def test_a_bin_holds_its_first_duration_and_not_its_last(
    durations: list[int], rows: list[tuple[int, ...]]
) -> None:
    scene = Scene()
    stream = scene.stream(7)
    for dur in durations:
        stream.run("k", dur)
    stream.run("Memset (Device)", 3, category="gpu_memset")
    found = kernel_durations(scene.linked())
    assert found.select("from_ns", "below_ns", "count", "total_ns").rows() == rows
    assert found.get_column("share_of_count").sum() == 1.0
    assert found.get_column("share").sum() == (1.0 if any(durations) else 0.0)


def test_distances_are_from_start_to_start_on_a_stream() -> None:
    scene = Scene()
    for number, starts in ((7, (0, 100, 400)), (8, (50, 90)), (9, (10,))):
        for at in starts:
            scene.stream(number).run("k", 5, at=at)
    found = kernel_pace(scene.linked())
    columns = ("device", "stream", "count", "mean_ns", "median_ns", "min_ns", "max_ns")
    assert found.select(columns).rows() == [
        ("0", "7", 2, 200.0, 200.0, 100, 300),
        ("0", "8", 1, 40.0, 40.0, 40, 40),
    ]
    assert found.get_column("std_ns").null_count() == 1


def test_distances_of_a_step_are_within_it() -> None:
    scene, host, stream = device_scene()
    for number, runs in ((1, 2), (2, 1)):
        with host.step(number):
            for _ in range(runs):
                host.launch(stream, "k", 10)
    found = kernel_pace(scene.linked(), per_step=True)
    assert found.select("step", "count").rows() == [("ProfilerStep#1", 1)]


def on_two_streams() -> LinkedTrace:
    """On stream 7: long 0-20000, short 20500-21000, a copy 21000-21100, short 24100-34100; on stream 8: tiny."""
    scene = Scene()
    first, second = scene.stream(7), scene.stream(8)
    first.run("long", SHORT_KERNEL_NS * 2, 0)
    first.run("short", 500, at=20_500)
    first.run("Memcpy DtoD (Device -> Device)", 100, at=21_000, category="gpu_memcpy")
    first.run("short", SHORT_KERNEL_NS, at=24_100)
    second.run("tiny", 1, at=20_000)
    return scene.linked()


def test_gaps_are_those_of_the_stream() -> None:
    found = short_kernels(on_two_streams())
    columns = ("name", "count", "count_of_all", "total_ns", "gap_before_ns", "gap_after_ns")
    assert found.select(columns).rows() == [("short", 1, 2, 500, 500, 0), ("tiny", 1, 1, 1, 0, 0)]


def test_a_threshold_is_a_duration_that_is_not_short() -> None:
    found = short_kernels(on_two_streams(), max_ns=SHORT_KERNEL_NS + 1)
    columns = ("name", "count", "total_ns", "gap_before_ns", "gap_after_ns")
    assert found.select(columns).rows() == [("short", 2, 10_500, 3_500, 0), ("tiny", 1, 1, 0, 0)]
    assert short_kernels(on_two_streams(), max_ns=1).is_empty()


def test_communication_is_no_short_work_but_keeps_its_stream_busy() -> None:
    scene, host, stream = device_scene(world_size=2)
    host.launch(stream, "a", 100)
    collective = host.collective(stream, 500)
    last = host.launch(stream, "a", 100)
    found = short_kernels(scene.linked())
    gap = last.ts - collective.end
    assert found.select("name", "count", "gap_before_ns").rows() == [("a", 2, gap)]


def test_what_overlaps_has_no_gap_before_it() -> None:
    scene = Scene()
    stream = scene.stream(7)
    stream.run("long", 1_000_000, 0)
    stream.run("a", 10, at=500)
    stream.run("a", 10, at=1_000_100)
    found = short_kernels(scene.linked())
    assert found.select("name", "gap_before_ns").rows() == [("a", 100)]
