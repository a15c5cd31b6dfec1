"""How long steps took, and what filled them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, kernel, op
from tests.planted import Scene
from tests.planted.scenes import KERNEL_NS, clean
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.step_times import step_times
from tracebraid.model.answers import STEP_TIMES

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def mark(number: int, start: float, length: float, tid: int = 1) -> Json:
    return op(f"ProfilerStep#{number}", start, length, tid, cat="user_annotation")


def times_of(*events: Json, **options: Any) -> list[dict[str, Any]]:
    """The rows, times in µs."""
    rows = step_times(linked_of(events), **options).to_dicts()
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


def test_a_trace_without_work_has_no_rows_but_the_columns() -> None:
    assert step_times(linked_of([mark(1, 0, 10)])).schema == STEP_TIMES.polars_schema()
    assert times_of(mark(1, 0, 10)) == []


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
    marks = [mark(n, 1000 * n, length) for n, length in enumerate(lengths)]
    work = [kernel("k", 1000 * n + 10, 20, n + 1) for n in range(4)]
    first, second = op(name, 20, 5, 2, cat=category), op(name, 1020, 5, 2, cat=category)
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
    assert [(row["start_ns"], row["span_ns"]) for row in rows] == [(m.ts, m.dur) for m in marks]
    work = scene.of_category("kernel")
    for row, planted in zip(rows, marks, strict=True):
        inside = [max(0, min(w.end, planted.end) - max(w.ts, planted.ts)) for w in work]
        assert row["compute_ns"] == sum(inside)
        assert not row["doubtful"]
    assert sum(w.dur for w in work) == KERNEL_NS * len(work)


def test_a_step_in_which_nothing_runs_is_idle() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in (1, 2):
        with host.step(number, ns=5_000):
            if number == 1:
                with host.op("aten::mm"):
                    host.launch(stream, "gemm", 1_000)
                host.synchronize()
    idle = [(row["idle_ns"], row["span_ns"]) for row in step_times(scene.linked()).to_dicts()]
    assert idle[1] == (5_000, 5_000)
    assert idle[0][1] - idle[0][0] == 1_000
