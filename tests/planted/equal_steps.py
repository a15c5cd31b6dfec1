"""A sound trace of some equal steps, for tests that damage it."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.validity import validity
from tracebraid.model.linked_trace import LinkedTrace

STEP_US = 1000
KERNELS = 20

CUDA_8, CUDA_9 = ({"name": "NVIDIA", "computeMajor": major, "computeMinor": 0} for major in (8, 9))


def step(number: int, launch: str = "cudaLaunchKernel") -> list[Json]:
    """A step of 20 ops: each launches a kernel of 30 µs, 5 µs later, on stream 7."""
    start = number * STEP_US
    events = [op(f"ProfilerStep#{number}", start, STEP_US - 10, cat="user_annotation")]
    for i in range(KERNELS):
        at, correlation = start + 10 + 45 * i, 100 * number + i + 1
        events += [
            op("aten::add", at, 9),
            call(launch, at + 1, 5, correlation),
            kernel(f"kernel_{i % 4}", at + 10, 30, correlation),
        ]
    return events


def steps(count: int, launch: str = "cudaLaunchKernel") -> list[Json]:
    return [event for number in range(count) for event in step(number, launch)]


def is_device(event: Json) -> bool:
    return bool(event["cat"] in ("kernel", "gpu_memcpy"))


def is_call(event: Json) -> bool:
    return bool(event["cat"] == "cuda_runtime")


def number_of(event: Json) -> int:
    """The number of the step in which an event starts."""
    return int(event["ts"] // STEP_US)


def without(events: list[Json], lost: Callable[[Json], bool]) -> list[Json]:
    return [event for event in events if not lost(event)]


def linked(events: list[Json], device: Json = CUDA_8) -> LinkedTrace:
    return linked_of(events, header={"deviceProperties": [device]})


def doubts(events: list[Json], device: Json = CUDA_8) -> list[tuple[str | None, str, int]]:
    """(step, doubt, count) of a trace."""
    rows = validity(linked(events, device)).select("step", "doubt", pl.col("count"))
    return [
        (None if name is None else name.split("#")[1], doubt, count) for name, doubt, count in rows.rows()
    ]
