"""Results as tables for people: what must stand in them, whatever their layout."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tracebraid.analysis.kernels.kernels import KERNELS, LAUNCHERS
from tracebraid.analysis.time.breakdown import BREAKDOWN
from tracebraid.errors import InputError
from tracebraid.model.answers.graph import StragglerMetric
from tracebraid.model.answers.launches import Launcher
from tracebraid.model.answers.ops import OPS
from tracebraid.model.capture_outcome import CaptureOutcome, NothingCaptured, Recorded
from tracebraid.model.column import Table as Declared
from tracebraid.model.coverage import Count, Coverage, OrphanKind, OrphanReason, Orphans
from tracebraid.model.file_info import DeviceSource, FileInfo
from tracebraid.model.finding import reason_sentence
from tracebraid.model.graph import Residual
from tracebraid.reports.capture import nothing_text, recorded_texts
from tracebraid.reports.critical_path import why
from tracebraid.reports.straggler_metrics import straggler_parts
from tracebraid.reports.terminal import (
    breakdown_table,
    coverage_table,
    info_tables,
    kernels_table,
    launchers_line,
    ops_table,
    orphans_table,
)
from tracebraid.simulation.stragglers import STRAGGLER_METRICS

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


def wide_row(rank: int, device: str, step: str | None) -> dict[str, Any]:
    parts = {"compute_ns": 1_034_000, "exposed_communication_ns": 5_537_000, "exposed_memory_ns": 19_000}
    sums = {"communication_ns": 5_798_000, "overlap_ns": 261_000}
    times = {"span_ns": 14_455_000, "idle_ns": 7_865_000}
    return step_row(step, rank, device=device, **parts, **sums, **times)


@pytest.mark.parametrize(
    ("devices", "left_out"),
    [
        pytest.param([(0, "0"), (1, "1")], {"device", "comm", "overlap"}, id="one of each rank"),
        pytest.param([(0, "0"), (0, "1")], {"exposed memory", "comm", "overlap"}, id="several of a rank"),
    ],
)
def test_a_breakdown_that_is_too_wide_leaves_columns_out_and_breaks_no_cell(
    devices: list[tuple[int, str]], left_out: set[str]
) -> None:
    rows = [wide_row(rank, device, step) for rank, device in devices for step in (None, "ProfilerStep#10")]
    lines = text_of(breakdown_table(frame(BREAKDOWN, rows), 80), 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("14.46 ms" in line and "54.4 %" in line for line in lines) == len(rows)
    (said,) = (line for line in lines if line.startswith("no room for: "))
    assert set(said.removeprefix("no room for: ").strip().split(", ")) == left_out


# --- Straggler metrics for people --------------------------------------------------------------------


def _metrics(slowdown: float) -> pl.DataFrame:
    rows = [
        {"metric": StragglerMetric.SLOWDOWN.value, "value": slowdown},
        {"metric": StragglerMetric.SLOWEST_WORKERS.value, "group": "17", "value": 0.875},
    ]
    return STRAGGLER_METRICS.conform(
        pl.DataFrame(
            [{"group_by": None, "group": None, "step_ns": 1e6, "ideal_ns": 1e6, **row} for row in rows]
        )
    )


@pytest.mark.parametrize(("slowdown", "shown"), [(1.2, True), (1.0001, False), (0.99, False)])
def test_a_share_of_nothing_is_not_printed(slowdown: float, shown: bool) -> None:
    parts = straggler_parts(_metrics(slowdown), 10, 100)
    text = "\n".join(part.plain for part in parts if isinstance(part, Text))
    assert ("87.5" in text) == shown


# --- Tables of a critical path -----------------------------------------------------------------------


def test_each_residual_has_words_of_its_own() -> None:
    words = [why(residual.name.lower()) for residual in Residual if residual is not Residual.NONE]
    assert all(words)
    assert len(set(words)) == len(words)
    assert why(None) == ""


# --- What is said at the end of a captured command has an answer for everything ----------------------


@pytest.mark.parametrize("cause", NothingCaptured, ids=lambda cause: cause.value)
def test_every_cause_has_its_words_with_the_detail_in_them_and_an_advice(cause: NothingCaptured) -> None:
    what, advice = nothing_text(CaptureOutcome(0, "traces", cause, "the-detail"))
    bare, _ = nothing_text(CaptureOutcome(0, "traces", cause))
    assert "{" not in what + advice
    assert ("the-detail" in what) == (what != bare)
    assert advice
    assert not advice.endswith(".")


def test_causes_that_come_with_a_detail_say_it() -> None:
    for cause in (
        NothingCaptured.NOT_INSTALLED,
        NothingCaptured.PYTHON_OPTIONS,
        NothingCaptured.PATH_REPLACED,
        NothingCaptured.TOO_FEW_STEPS,
        NothingCaptured.KILLED,
        NothingCaptured.WINDOW_LOST,
        NothingCaptured.REFUSED,
    ):
        assert "the-detail" in nothing_text(CaptureOutcome(0, "traces", cause, "the-detail"))[0]


def test_no_two_causes_have_the_same_words() -> None:
    said = {nothing_text(CaptureOutcome(0, "traces", cause, cause.value))[0] for cause in NothingCaptured}
    assert len(said) == len(NothingCaptured)


def test_what_was_recorded_is_one_line_of_steps_loop_and_cost() -> None:
    first = Recorded(0, (7, 8, 9, 15), 20, "optimizer", "SGD", 1.94)
    (line,) = recorded_texts([first, Recorded(1, (7, 8), 20, "optimizer", "SGD", None)], None)
    assert "\n" not in line
    for words in ("2 ranks", "7 to 9, 15", "20", "optimizer", "SGD", "1.9 times as long"):
        assert words in line
    assert "on the host" not in line
    # A device may have been behind: then nobody timed its steps.
    assert "1.9 times as long on the host" in recorded_texts([replace(first, has_device=True)], None)[0]


def test_each_process_of_a_rank_has_a_line_and_the_dead_have_one_together() -> None:
    first = Recorded(0, (7, 8, 9), 20, "optimizer", "SGD", None, attempt=1, died=("RuntimeError", None))
    second = replace(first, folder="process_1", died=("RuntimeError",))
    own, of_second, died = recorded_texts([second, first], None)
    assert own.startswith("recorded steps 7 to 9 of 20")
    assert of_second.startswith("process_1: recorded steps 7 to 9 of 20")
    for words in ("3 processes died", "RuntimeError 2 times", "killed", "attempt 1"):
        assert words in died


@pytest.mark.parametrize(("ended_by", "said"), [("end", "of 20,"), (None, "of at least 20,")])
def test_steps_of_a_process_that_was_killed_are_a_lower_bound(ended_by: str | None, said: str) -> None:
    (line,) = recorded_texts([Recorded(0, (7,), 20, "optimizer", "SGD", None, ended_by=ended_by)], None)
    assert said in line


def test_what_ended_a_process_and_how_often_it_was_started_anew_are_told() -> None:
    first = Recorded(0, (7,), 13, "optimizer", "SGD", None, ended_by="RuntimeError")
    again = replace(first, folder="process_1", ended_by="end", attempt=1)
    own, other = recorded_texts([first, again, replace(again, rank=1)], None)
    assert "recorded step 7 of 13, ended by RuntimeError, counted" in own
    assert "restart" not in own
    assert "2 ranks recorded step 7 of 13, after 1 restart, counted" in other


def test_a_step_that_was_interrupted_is_one_of_those_that_were_seen() -> None:
    (line,) = recorded_texts([Recorded(0, (7, 8), 8, "step()", "", None, ended_by="ValueError")], None)
    assert "recorded steps 7 to 8 of 9" in line


def test_many_windows_are_one_range() -> None:
    steps = tuple(step for window in range(100) for step in (window * 8 + 7, window * 8 + 8))
    (line,) = recorded_texts([Recorded(0, steps, 900, "optimizer", "SGD", None)], None)
    assert "200 steps in 100 windows, from 7 to 800" in line


def test_a_detail_names_the_folder_once_and_ends_once() -> None:
    for detail in (
        "/tmp/out: it cannot be written (No space left). Is the disk full?",
        "/tmp/out/a.json: x. Is the disk full?",
    ):
        words = nothing_text(CaptureOutcome(0, "/tmp/out", NothingCaptured.REFUSED, detail))
        said = str(InputError("/tmp/out", *words))
        assert said.count("/tmp/out") == 1
        assert "?." not in said


def test_a_loop_that_was_too_short_is_told_where_another_was_recorded() -> None:
    loops = (
        {"counted_by": "optimizer", "name": "Adam", "training": True, "steps": 4, "followed": True},
        {"counted_by": "module", "name": "Net", "training": False, "steps": 30, "followed": False},
    )
    assert "Adam" in recorded_texts([Recorded(0, (7,), 30, "module", "Net", None, (), loops)], None)[0]
    assert "Adam" not in recorded_texts([Recorded(0, (7,), 30, "optimizer", "SGD", None, (), loops)], None)[0]
