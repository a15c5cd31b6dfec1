"""Idle time on real traces: it adds up on every file, and streams are idle as HTA says on µs traces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import Json, write
from tests.golden.test_analyze_golden import FILES, linked_file, linked_of
from tests.property.test_time import assert_adds_up
from tracebraid import link
from tracebraid.analyses import steps
from tracebraid.analysis.device import device_events
from tracebraid.analysis.time.idle.idle_parts import (
    IDLE_BLAME,
    IDLE_CAUSES,
    IDLE_GAPS,
    idle_blame,
    idle_causes,
    idle_gaps,
)
from tracebraid.analysis.time.idle.stream_idle import STREAM_IDLE, gaps_by_category, stream_idle
from tracebraid.analysis.validity import validity
from tracebraid.model.column import Table
from tracebraid.model.linked_trace import LinkedTrace

DLRM = {f"dlrm_v100_8rank:{rank}": f"pairs/dlrm_v100_8rank/kineto_trace_{rank}.json.gz" for rank in range(4)}
ALL = {**FILES, **DLRM}

ANSWERS: list[tuple[Callable[..., pl.DataFrame], Table]] = [
    (idle_causes, IDLE_CAUSES),
    (idle_blame, IDLE_BLAME),
    (idle_gaps, IDLE_GAPS),
    (stream_idle, STREAM_IDLE),
]

Figures = dict[tuple[str, str], tuple[float, int]]
"""(µs, count) by stream and category."""


def linked_any(folder: Path, name: str) -> LinkedTrace:
    return linked_of(folder, name) if name in FILES else link(None, folder / DLRM[name])


@pytest.mark.parametrize("name", ALL)
def test_idle_time_adds_up_on_every_file(real_traces: Path, name: str) -> None:
    linked = linked_any(real_traces, name)
    assert_adds_up(linked)
    for ask, table in ANSWERS:
        for per_step in (False, True):
            frame = ask(linked, per_step=per_step)
            assert dict(frame.schema) == table.polars_schema()
            floats = frame.select(pl.col(pl.Float64).is_nan().any())
            assert not any(floats.row(0)) if floats.width else True


@pytest.mark.parametrize("rank", [0, 1])
def test_idle_time_adds_up_on_the_demo(demo: Path, rank: int) -> None:
    linked = link(None, demo / f"kineto_trace_{rank}.json.gz")
    assert_adds_up(linked)
    assert set(idle_causes(linked).get_column("device")) == {"cpu"}
    assert stream_idle(linked).is_empty()


# --- HTA's idle time of streams ---------------------------------------------------------------------


def hta(folder: Path, name: str) -> list[dict[str, Any]]:
    """HTA's rows of gaps that are there: sums and their spread; name:row picks the rank."""
    name, _, rank = name.partition(":")
    key = ["rank", "stream", "idle_category"]
    sums, spread = (
        pl.read_csv(folder / "expected/hta" / name / f"idle_time_breakdown.{number}.csv") for number in (0, 1)
    )
    rows = sums.join(spread.filter(pl.col("count") > 0), on=key, validate="1:1")
    return rows.filter(pl.col("rank") == int(rank)).to_dicts() if rank else rows.to_dicts()


def counted_by_hta(linked: LinkedTrace) -> pl.DataFrame:
    """The device events without those that were launched in the last of several steps, or after it."""
    marks = steps(linked)
    if marks.height < 2:
        return device_events(linked)
    last = marks.get_column("start_ns").max()
    calls = linked.timeline.events.filter(pl.col("ts_ns") < last)
    called = calls.select(pl.col("event_id").alias("call_event"))
    return device_events(linked).join(called, on="call_event", how="semi")


def figures(gaps: pl.DataFrame) -> Figures:
    sums = gaps.group_by("stream", "category").agg(pl.col("gap_ns").sum(), pl.len())
    return {(stream, kind): (ns / 1000, count) for stream, kind, ns, count in sums.iter_rows()}


def figures_of_hta(rows: list[dict[str, Any]]) -> Figures:
    return {(str(r["stream"]), r["idle_category"]): (r["idle_time"], r["count"]) for r in rows}


IN_US = (
    "simple_add_a100",
    "linear_2080ti",
    "v100_rank1of2_54MB",
    "sampled_2_of_128:0",
    "sampled_2_of_128:1",
    "a100_event_sync",
    "a100_event_sync_multi_stream",
    "a100_alexnet_cuda_sync",
)


@pytest.mark.parametrize("name", IN_US)
def test_streams_are_idle_as_hta_says_on_traces_in_microseconds(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    found = figures(gaps_by_category(linked, counted_by_hta(linked)))
    assert found == figures_of_hta(hta(real_traces, name))


@pytest.mark.parametrize("name", ["simple_add_a100", "linear_2080ti"])
def test_the_spread_of_gaps_is_htas(real_traces: Path, name: str) -> None:
    rows = {row["category"]: row for row in stream_idle(linked_of(real_traces, name)).to_dicts()}
    columns = {
        "mean": "mean_ns",
        "std": "std_ns",
        "min": "min_ns",
        "25%": "p25_ns",
        "50%": "p50_ns",
        "75%": "p75_ns",
        "max": "max_ns",
    }
    expected = hta(real_traces, name)
    assert len(rows) == len(expected)
    for row in expected:
        found = rows[row["idle_category"]]
        for theirs, ours in columns.items():
            in_us = None if found[ours] is None else round(found[ours] / 1000, 2)
            assert in_us == row[theirs]
        assert round(found["share"], 2) == row["idle_time_ratio"]


def test_hta_rounds_each_gap_of_a_trace_in_nanoseconds(real_traces: Path) -> None:
    """759 gaps of 1 to 3 µs: rounded to whole µs they are half as long again as they were."""
    linked = linked_of(real_traces, "a100_ddp_nccl_rank0of2")
    exact_us, count = figures(gaps_by_category(linked, counted_by_hta(linked)))["7", "kernel_wait"]
    rounded_us, rounded_count = figures_of_hta(hta(real_traces, "a100_ddp_nccl_rank0of2"))["7", "kernel_wait"]
    assert (exact_us, rounded_us) == (1414.183, 2155.0)
    # One gap more: HTA moves it to `host_wait`, where rounding puts the launch behind the kernel's end.
    assert (count, rounded_count) == (760, 759)


def test_hta_counts_what_only_waits_on_a_queue_as_work(real_traces: Path) -> None:
    """MTIA's `event_wait` and `event_record` split the gaps of a queue in two and more."""
    linked = linked_of(real_traces, "mtia_inference")
    found, expected = (
        figures(gaps_by_category(linked, device_events(linked))),
        hta(real_traces, "mtia_inference"),
    )
    assert {stream for stream, _ in found} == {str(row["stream"]) for row in expected}
    assert sum(count for _, count in found.values()) < sum(row["count"] for row in expected)


# --- what the traces show ---------------------------------------------------------------------------


def share_of(linked: LinkedTrace, **wanted: str) -> float:
    rows = idle_causes(linked)
    matches = pl.all_horizontal(pl.col(name) == value for name, value in wanted.items())
    return float(rows.filter(matches).get_column("share").sum())


def test_the_v100_waits_for_a_host_that_computes(real_traces: Path) -> None:
    linked = linked_of(real_traces, "v100_rank1of2_54MB")
    assert 0.70 < share_of(linked, cause="host-late", host_activity="computed") < 0.73
    assert share_of(linked, cause="stream-wait") > 0
    top = idle_blame(linked).row(0, named=True)
    assert (top["op"], round(top["share"], 2)) == ("CompiledFunctionBackward", 0.20)
    top = idle_blame(linked, by="top_op").row(0, named=True)
    assert top["top_op"] == "autograd::engine::evaluate_function: CompiledFunctionBackward"
    assert round(top["share"], 2) == 0.47


def test_the_decode_step_waits_for_another_stream(real_traces: Path) -> None:
    """The host tells the stream to wait, launches, and all of the device is idle for 463 ms."""
    linked = linked_of(real_traces, "mi300x_decode_graph_launch")
    assert share_of(linked, cause="stream-wait") > 0.99
    assert idle_gaps(linked).filter(cause="graph-launch").height == 1


def test_sampled_traces_lack_what_their_queues_waited_for(real_traces: Path) -> None:
    assert share_of(linked_of(real_traces, "sampled_2_of_128:0"), cause="blocked") > 0.5


def test_stacks_say_which_line_the_device_waits_for(real_traces: Path) -> None:
    linked = linked_of(real_traces, "h100_qwen_stack_memory")
    top = idle_blame(linked).row(0, named=True)
    assert top["host_activity"] == "python"
    assert top["frame"] == "transformers/models/qwen2/modeling_qwen2.py(503): forward"
    assert share_of(linked, cause="queued") > 0.6


# --- Sound real traces give no doubt; damaged in the ways that users reported, they do ---------------


DLRM_JOB = {f"dlrm:{rank}": f"pairs/dlrm_v100_8rank/kineto_trace_{rank}.json.gz" for rank in range(4)}

WITHOUT_KERNELS = "a100_cupti_counters"
"""Its 77 launches have no kernel in the file: CUPTI recorded counters instead, and nothing can be said of time."""

CUT_OFF = "triton_example"
"""Its step lasts 13.3 s, of which the profiler recorded the first 1.7 ms: it is not idle for the rest."""


@pytest.mark.parametrize("name", sorted({*FILES, *DLRM_JOB} - {WITHOUT_KERNELS, CUT_OFF}))
def test_a_sound_trace_gives_no_doubt(real_traces: Path, name: str) -> None:
    linked = linked_file(real_traces / {**FILES, **DLRM_JOB}[name])
    assert validity(linked).rows() == []
    assert validity(linked.with_annotation("none of that name")).rows() == []


def test_the_demo_gives_no_doubt(demo: Path) -> None:
    for rank in (0, 1):
        assert validity(linked_file(demo / f"kineto_trace_{rank}.json.gz")).is_empty()


def test_launches_without_any_kernel_are_a_doubt(real_traces: Path) -> None:
    rows = validity(linked_of(real_traces, WITHOUT_KERNELS)).select("step", "doubt", "count").rows()
    assert rows == [(None, "device-events-missing", 77)]


def test_a_step_that_was_hardly_recorded_is_a_doubt(real_traces: Path) -> None:
    rows = validity(linked_of(real_traces, CUT_OFF)).select("step", "doubt", "time_ns").rows()
    assert rows == [("ProfilerStep#1", "outlasts-trace", 13_336_315_805)]


def is_kernel(event: Json) -> bool:
    return event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")


def damaged(
    path: Path, folder: Path, damage: Callable[[list[Json]], list[Json]]
) -> set[tuple[str | None, str]]:
    """(step, doubt) of a real trace after its events were changed."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    trace["traceEvents"] = damage(trace["traceEvents"])
    linked = link(None, write(folder / "kineto_trace_0.json", json.dumps(trace)))
    return set(validity(linked).select("step", "doubt").rows())


def step_bounds(events: list[Json], number: int) -> tuple[float, float]:
    name = f"ProfilerStep#{number}"
    [step] = [e for e in events if e.get("name") == name and e.get("cat") == "user_annotation"]
    return step["ts"], step["ts"] + step["dur"]


def launched_within(events: list[Json], start: float, end: float) -> set[int]:
    return {
        e["args"]["correlation"]
        for e in events
        if e.get("cat") == "cuda_runtime" and "correlation" in e["args"] and start <= e["ts"] < end
    }


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("with_calls", [True, False])
def test_a_step_that_lost_its_device_events_is_found(
    real_traces: Path, tmp_path: Path, with_calls: bool
) -> None:
    def lose(events: list[Json]) -> list[Json]:
        lost = launched_within(events, *step_bounds(events, 5))
        kinds = is_kernel if with_calls else lambda e: is_kernel(e) or e.get("cat") == "cuda_runtime"
        return [e for e in events if not (kinds(e) and e["args"].get("correlation") in lost)]

    found = damaged(real_traces / FILES["a100_ddp_nccl_rank0of2"], tmp_path, lose)
    assert found == {("ProfilerStep#5", "device-events-missing")}


def test_a_tenth_of_the_kernels_lost_is_found(real_traces: Path, tmp_path: Path) -> None:
    def lose(events: list[Json]) -> list[Json]:
        return [e for e in events if not (is_kernel(e) and e["args"]["correlation"] % 10 == 3)]

    found = damaged(real_traces / FILES["a100_ddp_nccl_rank0of2"], tmp_path, lose)
    assert {doubt for _, doubt in found} == {"launch-without-work"}
    assert {step for step, _ in found} >= {f"ProfilerStep#{n}" for n in (4, 5, 6)}


@pytest.mark.parametrize(
    "name", ["a100_ddp_nccl_rank0of2", "h100_qwen_stack_memory", "mi300x_qwen_stack_memory"]
)
def test_durations_that_run_over_the_next_events_are_found(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    """AMD-AGI/TraceLens#669: some kernels last as long as the stall that followed."""

    def stall(events: list[Json]) -> list[Json]:
        kernels = [e for e in events if e.get("cat") == "kernel"]
        for event in kernels[len(kernels) // 2 : len(kernels) // 2 + 3]:
            event["dur"] += 5_000
        return events

    found = damaged(real_traces / FILES[name], tmp_path, stall)
    assert {doubt for _, doubt in found} == {"stream-overlaps"}


def test_one_event_with_nearly_all_device_time_is_found(real_traces: Path, tmp_path: Path) -> None:
    """AMD-AGI/TraceLens#972: two steps have all device events, one of them 99 % of the time."""

    def collapse(events: list[Json]) -> list[Json]:
        start, end = step_bounds(events, 4)
        kept = launched_within(events, start, end)
        left = [e for e in events if not is_kernel(e) or e["args"].get("correlation") in kept]
        longest = max((e for e in left if is_kernel(e)), key=lambda e: e["ts"])
        total = sum(e["dur"] for e in left if is_kernel(e))
        longest |= {"name": "malformed", "dur": total * 0.9907 / 0.0093}
        return left

    found = damaged(real_traces / FILES["a100_ddp_nccl_rank0of2"], tmp_path, collapse)
    doubts = {step: {doubt for of, doubt in found if of == step} for step, _ in found}
    assert "event-dominates" in doubts["ProfilerStep#4"]
    assert all("device-events-missing" in doubts[f"ProfilerStep#{n}"] for n in (5, 6))


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("dur", [-7, 18446744073709551.615, 18446744073709551615])
def test_durations_that_wrap_around_are_found(real_traces: Path, tmp_path: Path, dur: float) -> None:
    def wrap(events: list[Json]) -> list[Json]:
        start, end = step_bounds(events, 5)
        inside = (e for e in events if e.get("cat") == "kernel" and start + 50_000 < e["ts"] < end - 50_000)
        next(inside)["dur"] = dur
        return events

    found = damaged(real_traces / FILES["a100_ddp_nccl_rank0of2"], tmp_path, wrap)
    assert found == {("ProfilerStep#5", "duration-overflows")}
