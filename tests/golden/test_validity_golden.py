"""Sound real traces give no doubt; damaged in the ways that users reported, they do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import Json, write
from tests.golden.test_analyze_golden import FILES, linked_file, linked_of
from tracebraid.analysis.validity.validity import validity
from tracebraid.api import link

DLRM = {f"dlrm:{rank}": f"pairs/dlrm_v100_8rank/kineto_trace_{rank}.json.gz" for rank in range(4)}

WITHOUT_KERNELS = "a100_cupti_counters"
"""Its 77 launches have no kernel in the file: CUPTI recorded counters instead, and nothing can be said of time."""

CUT_OFF = "triton_example"
"""Its step lasts 13.3 s, of which the profiler recorded the first 1.7 ms: it is not idle for the rest."""


@pytest.mark.parametrize("name", sorted({*FILES, *DLRM} - {WITHOUT_KERNELS, CUT_OFF}))
def test_a_sound_trace_gives_no_doubt(real_traces: Path, name: str) -> None:
    linked = linked_file(real_traces / {**FILES, **DLRM}[name])
    assert validity(linked).rows() == []
    assert validity(linked, annotation="none of that name").rows() == []


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


@pytest.mark.parametrize("dur", [-7, 18446744073709551.615, 18446744073709551615])
def test_durations_that_wrap_around_are_found(real_traces: Path, tmp_path: Path, dur: float) -> None:
    def wrap(events: list[Json]) -> list[Json]:
        start, end = step_bounds(events, 5)
        inside = (e for e in events if e.get("cat") == "kernel" and start + 50_000 < e["ts"] < end - 50_000)
        next(inside)["dur"] = dur
        return events

    found = damaged(real_traces / FILES["a100_ddp_nccl_rank0of2"], tmp_path, wrap)
    assert found == {("ProfilerStep#5", "duration-overflows")}
