"""Steps: when each ran, how long it took and what filled it, how much they differ, and which are warm-up."""

from __future__ import annotations

import statistics
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from tests.builders import Json, call, kernel, op
from tests.cases import cases
from tests.planted import device_scene
from tests.planted.equal_steps import is_device, linked, number_of, without
from tests.planted.equal_steps import steps as equal_steps
from tests.planted.scenes import KERNEL_NS, clean
from tests.unit.linking.made import linked_of
from tracebraid.analyses import step_spread, step_times, steps
from tracebraid.analysis.time.breakdown import Cover, cover_of
from tracebraid.analysis.time.step_times import warm_up
from tracebraid.model.step import PROFILER_STEP


def named(name: str, ts: float, dur: float, cat: str = "user_annotation", tid: int = 1) -> Json:
    return op(name, ts, dur, tid=tid, cat=cat)


def test_profiler_steps_come_in_the_order_of_time() -> None:
    linked = linked_of([named("ProfilerStep#10", 200, 50), named("ProfilerStep#9", 100, 90)])
    assert steps(linked).drop("doubtful").rows() == [
        (0, "ProfilerStep#9", 100_000, 190_000),
        (0, "ProfilerStep#10", 200_000, 250_000),
    ]


@cases(
    "names, annotation, expected",
    {
        "with or without number": (["train", "train#2", "training"], "train", ["train", "train#2"]),
        "one of them": (
            ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#12"],
            "ProfilerStep#1",
            ["ProfilerStep#1"],
        ),
    },
)
def test_another_annotation_marks_steps(names: list[str], annotation: str, expected: list[str]) -> None:
    linked = linked_of([named(name, 10 * number, 5) for number, name in enumerate(names)])
    assert steps(linked.with_annotation(annotation)).get_column("step").to_list() == expected


def test_an_op_can_mark_steps_and_a_device_side_annotation_does_not() -> None:
    linked = linked_of([named("train", 0, 5, cat="cpu_op"), named("train", 10, 5, cat="gpu_user_annotation")])
    assert steps(linked.with_annotation("train")).get_column("start_ns").to_list() == [0]


NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def mark(number: int, start: float, length: float, tid: int = 1) -> Json:
    return op(f"ProfilerStep#{number}", start, length, tid, cat="user_annotation")


def times_of(*events: Json, annotation: str = PROFILER_STEP) -> list[dict[str, Any]]:
    """The rows, times in µs."""
    rows = step_times(linked_of(events).with_annotation(annotation)).to_dicts()
    return [
        {
            k.removesuffix("_ns"): v / 1000 if k.endswith("_ns") and v is not None else v
            for k, v in row.items()
        }
        for row in rows
    ]


def test_parts_of_a_step_fill_it() -> None:
    [row] = times_of(
        mark(1, 0, 100),
        kernel("k", 10, 20, 1),
        kernel(NCCL, 25, 15, 2, stream=8),
        kernel("Memcpy", 38, 10, 3, stream=9, cat="gpu_memcpy"),
    )
    parts = ("compute", "exposed_communication", "exposed_memory", "idle")
    assert [row[part] for part in parts] == [20, 10, 8, 62]
    assert (row["span"], row["gap"], row["step"], row["device"]) == (100, None, "ProfilerStep#1", "0")


def test_there_is_a_row_for_each_step_and_device() -> None:
    other = {**kernel("k", 10, 5, 2), "pid": 1}
    rows = times_of(mark(2, 120, 80), mark(1, 0, 100), kernel("k", 10, 20, 1), other)
    assert [(row["step"][-1], row["device"], row["gap"]) for row in rows] == [
        ("1", "0", 20),
        ("1", "1", 20),
        ("2", "0", None),
        ("2", "1", None),
    ]


def test_steps_of_two_threads_may_overlap() -> None:
    rows = times_of(
        mark(1, 0, 100),
        mark(1, 50, 100, tid=2),
        mark(2, 110, 100),
        op("aten::mm", 60, 10),
        op("aten::mm", 140, 10, tid=2),
    )
    assert [(row["start"], row["span"], row["gap"]) for row in rows] == [
        (0, 100, -50),
        (50, 100, -40),
        (110, 100, None),
    ]
    assert [(row["compute"], row["idle"]) for row in rows] == [(10, 90), (20, 80), (10, 90)]


def test_steps_are_those_of_the_annotation_that_is_named() -> None:
    events = [op("iteration", 0, 50, cat="user_annotation"), op("aten::mm", 10, 20)]
    assert [row["compute"] for row in times_of(*events, annotation="iteration")] == [20]
    assert times_of(*events) == []


EVIDENCE = [
    ("cudaMalloc", "cuda_runtime", "device-malloc"),
    ("hipMalloc", "cuda_runtime", "device-malloc"),
    ("cuMemCreate", "cuda_driver", "device-malloc"),
    ("cudaMallocHost", "cuda_runtime", None),
    ("cuModuleLoadData", "cuda_driver", "module-load"),
    ("cuLibraryLoadData", "cuda_driver", "module-load"),
    ("Lazy Function Loading", "overhead", "module-load"),
    ("_compile.compile_inner (dynamo_timed)", "user_annotation", "compile"),
    ("torch/_dynamo/convert_frame.py(1): compile_inner", "python_function", "compile"),
    ("TorchDynamo Cache Lookup", "cpu_op", None),
    ("aten::mm", "cpu_op", None),
]


@pytest.mark.parametrize(("name", "category", "expected"), EVIDENCE)
def test_what_explains_a_warm_up_is_named_in_its_step(name: str, category: str, expected: str | None) -> None:
    lengths = [500, 100, 100, 100]
    starts = [0, 500, 600, 700]
    marks = [mark(n, start, length) for n, (start, length) in enumerate(zip(starts, lengths, strict=True))]
    work = [kernel("k", start + 10, 20, n + 1) for n, start in enumerate(starts)]
    first, second = op(name, 20, 5, 2, cat=category), op(name, 520, 5, 2, cat=category)
    rows = times_of(*marks, *work, first, second)
    assert [row["warmup"] for row in rows] == [True, False, False, False]
    assert [row["first_time_work"] for row in rows] == [expected, expected, None, None]


def test_several_explanations_are_named_together() -> None:
    events = [call("cudaMalloc", 10, 5, 7), call("cuModuleLoadData", 20, 5, 8), kernel("k", 30, 5, 9)]
    [row] = times_of(mark(1, 0, 100), *events)
    assert row["first_time_work"] == "device-malloc,module-load"


def test_steps_of_a_planted_run_are_as_planted() -> None:
    scene = clean(steps=4)
    rows = step_times(scene.linked()).to_dicts()
    marks = [event for n in range(1, 5) for event in scene.of(f"ProfilerStep#{n}")]
    work = scene.of_category("kernel")
    ends = [row["start_ns"] + row["span_ns"] for row in rows]
    assert [row["start_ns"] for row in rows] == [marks[0].ts, *ends[:-1]]
    assert ends[-1] == max(event.end for event in [*work, marks[-1]])
    assert all(end > mark.end for end, mark in zip(ends, marks, strict=True))
    assert sum(row["compute_ns"] for row in rows) == sum(w.dur for w in work)
    assert not any(row["doubtful"] for row in rows)
    assert sum(w.dur for w in work) == KERNEL_NS * len(work)


def test_a_step_in_which_nothing_runs_is_idle() -> None:
    scene, host, stream = device_scene()
    for number in (1, 2):
        with host.step(number, ns=5_000):
            if number == 1:
                with host.op("aten::mm"):
                    host.launch(stream, "gemm", 1_000)
                host.synchronize()
    idle = [(row["idle_ns"], row["span_ns"]) for row in step_times(scene.linked()).to_dicts()]
    assert idle[1] == (5_000, 5_000)
    assert idle[0][1] - idle[0][0] == 1_000


LENGTHS = [100, 104, 110, 90, 120]


def events_of(lengths: list[int]) -> list[Json]:
    starts = list(accumulate(lengths, initial=0))
    marks = [
        op(f"ProfilerStep#{n}", starts[n], length, cat="user_annotation") for n, length in enumerate(lengths)
    ]
    return [*marks, *(kernel("k", starts[n] + 10, 20 + n, n + 1) for n in range(len(lengths)))]


def spread_of(events: list[Json], **options: Any) -> dict[str, dict[str, Any]]:
    return {row["part"]: row for row in step_spread(linked_of(events), **options).to_dicts()}


def test_the_figures_are_those_of_statistics() -> None:
    rows = spread_of(events_of(LENGTHS))
    spans = [1000 * length for length in LENGTHS]
    row = rows["span"]
    assert row["count"] == 5
    assert row["mean_ns"] == pytest.approx(statistics.mean(spans))
    assert row["median_ns"] == statistics.median(spans)
    assert row["std_ns"] == pytest.approx(statistics.stdev(spans))
    assert row["p95_ns"] == pytest.approx(statistics.quantiles(spans, n=20, method="inclusive")[-1])
    assert (row["min_ns"], row["max_ns"]) == (90_000, 120_000)
    assert row["variation"] == pytest.approx(statistics.stdev(spans) / statistics.mean(spans))
    compute = [1000 * (20 + n) for n in range(5)]
    assert (rows["compute"]["mean_ns"], rows["compute"]["max_ns"]) == (statistics.mean(compute), 24_000)
    assert rows["exposed_memory"]["variation"] is None
    assert rows["gap"]["count"] == 4
    assert list(rows) == ["span", "compute", "exposed_communication", "exposed_memory", "idle", "gap"]


def test_means_of_parts_add_up_to_that_of_the_span() -> None:
    rows = spread_of(events_of(LENGTHS))
    parts = ("compute", "exposed_communication", "exposed_memory", "idle")
    assert sum(rows[part]["mean_ns"] for part in parts) == pytest.approx(rows["span"]["mean_ns"])


def test_warm_up_is_left_out_unless_requested() -> None:
    for options, expected in (({}, (3, 100_000, 1)), ({"with_warmup": True}, (4, 900_000, 0))):
        row = spread_of(events_of([900, 100, 100, 100]), **options)["span"]
        assert (row["count"], row["max_ns"], row["warmup_left_out"]) == expected


def test_doubtful_steps_are_left_out_unless_asked_for() -> None:
    trace = linked(without(equal_steps(4), lambda e: is_device(e) and number_of(e) == 2))
    row = step_spread(trace).row(1, named=True)
    assert (row["part"], row["count"], row["doubtful_left_out"]) == ("compute", 3, 1)
    assert row["variation"] == 0
    row = step_spread(trace, with_doubtful=True).row(1, named=True)
    assert (row["count"], row["min_ns"], row["doubtful_left_out"]) == (4, 0, 0)


def test_a_single_step_has_no_deviation() -> None:
    row = spread_of(events_of([100]))["span"]
    assert (row["count"], row["mean_ns"], row["std_ns"], row["variation"]) == (1, 100_000, None, None)
    assert "gap" not in spread_of(events_of([100]))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([9], []),
        ([900, 100], []),
        ([900, 100, 100], [0]),
        ([900, 500, 100, 100, 100], [0, 1]),
        ([900, 100, 500, 100, 100, 100], [0]),
        ([100, 100, 100, 900, 100, 100], []),
        ([119, 100, 100, 100], []),
        ([121, 100, 100, 100], [0]),
        ([222, 220, 225], []),
        ([150, 80, 100, 120, 90], []),
        ([900, 900, 900, 100, 100, 100], [0, 1, 2]),
        ([0, 0, 0, 0], []),
        ([5, 0, 0], [0]),
        ([149, 467, 115, 114], [0]),
        ([300, 350, 115, 114], [0, 1]),
    ],
)
def test_the_first_steps_that_are_slower_than_the_later_half(spans: list[int], expected: list[int]) -> None:
    found = warm_up(np.array(spans, dtype=np.int64))
    assert np.flatnonzero(found).tolist() == expected
    assert len(found) == len(spans)


def cover(*pairs: tuple[int, int]) -> Cover:
    starts, ends = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    return cover_of(starts, ends)


def within(found: Cover, start: int, end: int) -> int:
    return int(found.within(np.array([start]), np.array([end]))[0])


def test_covers_of_times_of_today_in_ns_are_exact() -> None:
    now = 1_780_000_000_000_000_000
    assert cover((now, now + 1), (now + 2, now + 5)).length == 4
    assert within(cover((now, now + 10**12)), now + 1, now + 10**12 + 5) == 10**12 - 1
