"""Results as tables for people: what must stand in them, whatever their layout."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest
from rich.console import Console, Group
from rich.table import Table

from tracebraid.model.answers import BREAKDOWN, KERNELS, LAUNCHERS, OPS, Launcher
from tracebraid.model.column import Table as Declared
from tracebraid.model.coverage import Count, Coverage, Orphans
from tracebraid.model.file_info import DeviceSource, FileInfo
from tracebraid.model.reason import OrphanKind, OrphanReason
from tracebraid.model.sentences import reason_sentence
from tracebraid.reports.terminal import (
    breakdown_table,
    coverage_table,
    info_tables,
    kernels_table,
    launchers_line,
    ops_table,
    orphans_table,
)

MARKUP = "[bold]x[/bold] [/] [link=http://a]"
"""A name that Rich would take for markup, or choke on."""


def info_group(infos: list[FileInfo]) -> Group:
    return Group(*info_tables(infos))


def text_of(table: Table | Group, width: int = 240) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def lines_of(table: Table | Group) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text_of(table).splitlines()]


def frame(declared: Declared, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    zeros = {name: 0 if dtype.is_numeric() else None for name, dtype in declared.polars_schema().items()}
    return pl.DataFrame([{**zeros, **row} for row in rows], schema=declared.polars_schema())


def coverage(**changes: Any) -> Coverage:
    usual = {
        "host_ops": Count(1000, 990, {"record_function_id": 990}),
        "et_nodes": Count(995, 990, {}),
        "gpu_events": Count(50, 49, {"correlation": 49}),
        "gpu_time_ns": (2_000_000, 1_000_000),
        "orphans": (
            Orphans(OrphanKind.HOST_OP, OrphanReason.SEVERAL, 10),
            Orphans(OrphanKind.GPU_EVENT, OrphanReason.NO_CALL, 1),
        ),
        "has_et": True,
    }
    return Coverage(**{**usual, **changes})


def step_row(step: str | None, rank: int = 0, **columns: Any) -> dict[str, Any]:
    return {
        "rank": rank,
        "step": step,
        "device": "0",
        "span_ns": 1000,
        "idle_ns": 600,
        "compute_ns": 400,
        **columns,
    }


def kernel_row(name: str, total_ns: int = 5000, **columns: Any) -> dict[str, Any]:
    return {
        "kind": "compute",
        "name": name,
        "count": 3,
        "total_ns": total_ns,
        "mean_ns": 1.0,
        "share": 0.5,
        **columns,
    }


def op_row(name: str, **columns: Any) -> dict[str, Any]:
    usual = {"category": "cpu_op", "count": 3, "host_self_ns": 7000, "device_self_ns": 5000, "kernels": 1}
    return {"name": name, **usual, **columns}


def test_coverage_says_how_many_of_how_many_and_how() -> None:
    text = text_of(coverage_table([(3, coverage())]))
    assert "990 of 1,000" in text
    assert "99.0 %" in text
    assert "record_function_id" in text
    assert "49 of 50" in text
    assert "50.0 %" in text


def test_coverage_without_an_execution_trace_says_so() -> None:
    table = coverage_table([(0, coverage(has_et=False, host_ops=Count(9, 0, {})))])
    assert "no Execution Trace" in text_of(table)


def test_coverage_of_a_cpu_only_rank_shows_no_device() -> None:
    table = coverage_table([(0, coverage(gpu_events=Count(0, 0, {}), gpu_time_ns=(0, 0)))])
    assert "GPU" not in text_of(table)


def test_coverage_of_kernels_without_duration_is_whole() -> None:
    table = coverage_table([(0, coverage(gpu_events=Count(1, 1, {"correlation": 1}), gpu_time_ns=(0, 0)))])
    assert "100.0 %" in text_of(table)


def test_orphans_are_told_by_kind_and_reason_over_all_ranks() -> None:
    ranks = (0, 1, 2, 7)
    table = orphans_table([(rank, coverage()) for rank in ranks])
    assert table is not None
    lines = lines_of(table)
    for count, kind, reason in (
        ("40", "host op", OrphanReason.SEVERAL),
        ("4", "GPU event", OrphanReason.NO_CALL),
    ):
        assert [count, *f"{kind} 0-2, 7 {reason_sentence(reason)}".split()] in lines


def test_where_all_is_linked_there_is_no_table_of_orphans() -> None:
    assert orphans_table([(0, coverage(orphans=()))]) is None


def test_a_breakdown_shows_each_part_with_its_share_of_the_span() -> None:
    text = text_of(breakdown_table(frame(BREAKDOWN, [step_row(None)])))
    assert "400 ns 40.0 %" in text
    assert "600 ns 60.0 %" in text


def test_a_span_of_nothing_divides_by_nothing() -> None:
    table = breakdown_table(frame(BREAKDOWN, [step_row(None, span_ns=0, idle_ns=0, compute_ns=0)]))
    assert "0 ns" in text_of(table)


def test_an_empty_breakdown_is_an_empty_table() -> None:
    assert "NaN" not in text_of(breakdown_table(frame(BREAKDOWN, [])))


def test_steps_left_out_are_counted() -> None:
    rows = [step_row(None), *(step_row(f"ProfilerStep#{i}") for i in range(25))]
    text = text_of(breakdown_table(frame(BREAKDOWN, rows)))
    assert "15 more steps" in text
    assert "ProfilerStep#9" in text
    assert "ProfilerStep#10" not in text


def test_each_device_is_named() -> None:
    rows = [step_row(None, device="0"), step_row(None, device="1")]
    lines = lines_of(breakdown_table(frame(BREAKDOWN, rows)))
    assert [line[:3] for line in lines if line[:2] == ["0", "all"]] == [["0", "all", "0"], ["0", "all", "1"]]


def test_only_the_top_kernels_are_shown_and_the_rest_counted() -> None:
    table = kernels_table(frame(KERNELS, [kernel_row(f"kernel{i}") for i in range(1005)]), top=3)
    text = text_of(table)
    assert "kernel2" in text
    assert "kernel3" not in text
    assert "1,002 more" in text


def test_ops_are_sorted_by_the_time_that_was_asked_for() -> None:
    rows = [
        op_row("device_bound", device_self_ns=9000, host_self_ns=1),
        op_row("host_bound", device_self_ns=1),
    ]
    table = frame(OPS, rows)
    names = [line[-1] for line in lines_of(ops_table(table, 5, "device")) if line and "bound" in line[-1]]
    assert names == ["device_bound", "host_bound"]
    names = [line[-1] for line in lines_of(ops_table(table, 5, "host")) if line and "bound" in line[-1]]
    assert names == ["host_bound", "device_bound"]


@pytest.mark.parametrize("by", ["host", "device"])
def test_annotations_stand_among_the_ops_and_are_named_so(by: str) -> None:
    rows = [op_row("mm"), op_row("nccl:all_reduce", category="user_annotation")]
    rows = [{**row, "device_self_ns": 5_000, "kernels": 1} for row in rows]
    lines = lines_of(ops_table(frame(OPS, rows), 5, by))
    assert any("nccl:all_reduce" in line and "annotation" in line for line in lines)
    assert any("mm" in line and "op" in line for line in lines)


def test_marks_of_steps_are_left_out_of_host_time_only() -> None:
    """Their host time is the breakdown's, row by row; work that a step launches itself stands nowhere else."""
    rows = [op_row(name, category="user_annotation") for name in ("ProfilerStep#7", "train#1", "train_ops")]
    rows = [{**row, "device_self_ns": 5_000, "kernels": 1} for row in rows]
    host, device = (text_of(ops_table(frame(OPS, rows), 5, by, "train")) for by in ("host", "device"))
    assert "ProfilerStep#7" in host
    assert "train_ops" in host
    assert "train#1" not in host
    assert "train#1" in device
    assert "ProfilerStep#7" not in text_of(ops_table(frame(OPS, rows), 5, "host"))


def test_shares_of_launchers_stand_in_one_line() -> None:
    rows = [
        {"launcher": launcher.value, "kernels": 2, "device_ns": 10, "share": share}
        for launcher, share in ((Launcher.GRAPH, 0.85), (Launcher.OP, 0.15))
    ]
    line = launchers_line(frame(LAUNCHERS, rows))
    assert "85.0 %" in line
    assert "15.0 %" in line


def test_every_launcher_has_its_words() -> None:
    rows = [{"launcher": one.value, "kernels": 1, "device_ns": 1, "share": 0.2} for one in Launcher]
    assert launchers_line(frame(LAUNCHERS, rows)).count("20.0 %") == len(Launcher)


def info(**changes: Any) -> FileInfo:
    usual = {
        "path": "a/kineto_trace_0.json",
        "kind": "kineto-trace",
        "size_bytes": 1234,
        "schema": "schemaVersion 1",
        "torch": "",
        "devices": (),
        "rank": 3,
        "world_size": 8,
        "start_ns": 1_700_000_000_123_456_789,
        "span_ns": 1_500_000,
        "steps": ("ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#10"),
        "counts": {"cpu_op": 12_345, "kernel": 2},
        "device_source": DeviceSource.NONE,
    }
    return FileInfo(**{**usual, **changes})


def test_info_tells_the_facts_of_a_file() -> None:
    text = text_of(info_group([info()]))
    expected = (
        "a/kineto_trace_0.json",
        "Kineto trace",
        "1.2 KB",
        "unknown",
        "CPU only",
        "3 of 8",
        "1.500 ms",
    )
    for fact in (*expected, "2023-11-14 22:13:20 UTC", "ProfilerStep#1 ... ProfilerStep#10", "12,345 cpu_op"):
        assert fact in text


@pytest.mark.parametrize("source", [source for source in DeviceSource if source is not DeviceSource.NONE])
def test_info_claims_no_cpu_where_the_header_does_not(source: DeviceSource) -> None:
    assert "CPU" not in text_of(info_group([info(device_source=source, devices=("cuda:0",))]))


def test_info_of_a_rank_that_nothing_tells() -> None:
    table = info_group(
        [info(kind="execution-trace", rank=None, world_size=None, start_ns=None, span_ns=None)]
    )
    text = text_of(table)
    assert "Execution Trace" in text
    assert ["rank", "unknown"] in lines_of(table)
    assert "UTC" not in text


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(lambda: kernels_table(frame(KERNELS, [kernel_row(MARKUP)]), 5), id="kernel"),
        pytest.param(lambda: ops_table(frame(OPS, [op_row(MARKUP)]), 5, "host"), id="op"),
        pytest.param(lambda: ops_table(frame(OPS, [op_row("a", input_dims=MARKUP)]), 5, "host"), id="shapes"),
        pytest.param(lambda: breakdown_table(frame(BREAKDOWN, [step_row(MARKUP)])), id="step"),
        pytest.param(lambda: breakdown_table(frame(BREAKDOWN, [step_row(None, device=MARKUP)])), id="device"),
        pytest.param(
            lambda: breakdown_table(frame(BREAKDOWN, [step_row(None, device=d) for d in ("0", MARKUP)])),
            id="one of two devices",
        ),
        pytest.param(lambda: info_group([info(path=MARKUP)]), id="path"),
        pytest.param(lambda: info_group([info(devices=(MARKUP,))]), id="device name"),
        pytest.param(lambda: info_group([info(schema=MARKUP)]), id="schema"),
        pytest.param(lambda: info_group([info(counts={MARKUP: 1})]), id="category"),
    ],
)
def test_markup_in_a_traces_text_is_printed_as_it_stands(table: Callable[[], Table | Group | None]) -> None:
    made = table()
    assert made is not None
    assert MARKUP in " ".join(text_of(made).split())
