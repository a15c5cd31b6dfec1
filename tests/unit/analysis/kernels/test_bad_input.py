"""Traces in which something is missing or wrong: every answer is partial or empty, and of its schema."""

from __future__ import annotations

import polars as pl
import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.kernels.catalog import ANALYSES
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.model.category import Role
from tracebraid.model.questions.analysis import Analysis

TRACES: dict[str, list[Json]] = {
    "nothing": [],
    "one kernel": [kernel("k", 0, 5, 1)],
    "one op": [op("aten::mm", 0, 5)],
    "a kernel without arguments": [complete("k", "kernel", 0, 5, 0, 7)],
    "a kernel without a name": [{**kernel("", 0, 5, 1), "name": None}, kernel("", 10, 5, 2)],
    "durations of 0 and below": [kernel("k", 10, 0, 1), kernel("k", 10, -5, 2), kernel("k", 3, 0, 3)],
    "a duration that overflows": [kernel("k", 0, 9e12, 1), kernel("k", 5, 1, 2)],
    "a copy of a negative size": [kernel("Memcpy HtoD", 0, 5, 1, cat="gpu_memcpy", bytes=-4)],
    "streams as text": [complete("k", "kernel", i, 5, "GPU", "stream") for i in range(4)],
    "one correlation for all": [call("cudaLaunchKernel", 0, 1, 1), *(kernel("k", i, 1, 1) for i in range(5))],
    "a kernel before its launch": [call("cudaLaunchKernel", 90, 1, 1), kernel("k", 1, 5, 1)],
    "steps that overlap": [
        *(op(f"ProfilerStep#{i}", 10 * i, 25, cat="user_annotation") for i in range(4)),
        *(call("cudaLaunchKernel", 10 * i + 5, 1, i) for i in range(4)),
        *(kernel("k", 10 * i + 7, 2, i) for i in range(4)),
    ],
    "a capture without an end": [
        call("cudaStreamBeginCapture", 0, 1, 1),
        call("cudaLaunchKernel", 2, 1, 2),
        call("cudaGraphLaunch", 10, 1, 3),
        kernel("k", 12, 1, 3),
    ],
    "an end without a capture": [
        call("cudaStreamEndCapture", 0, 1, 1),
        call("cudaGraphLaunch", 10, 1, 3),
        kernel("k", 12, 1, 3),
    ],
    "an empty capture": [
        call("cudaStreamBeginCapture", 0, 1, 1),
        call("cudaStreamEndCapture", 5, 1, 2),
        call("cudaGraphLaunch", 10, 1, 3),
        kernel("k", 12, 1, 3),
    ],
    "nodes with and without ids": [
        call("cudaGraphLaunch", 10, 1, 3),
        kernel("k", 12, 1, 3, **Json({"graph id": 2, "graph node id": 9})),
        kernel("l", 14, 1, 3, **Json({"graph id": 2})),
        kernel("m", 16, 1, 3),
    ],
}


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
@pytest.mark.parametrize("trace", TRACES)
def test_an_answer_is_of_its_schema_and_has_no_nan(trace: str, analysis: Analysis) -> None:
    linked = linked_of(TRACES[trace])
    for per_step in (False, True):
        found = analysis.answer(linked, per_step=per_step)
        assert dict(found.schema) == analysis.table.polars_schema()
        assert not any(column.is_nan().any() for column in found.select(pl.selectors.float()))


@pytest.mark.parametrize("trace", TRACES)
def test_work_of_a_device_is_counted_whatever_else_is_wrong(trace: str) -> None:
    linked = linked_of(TRACES[trace])
    assert kernels(linked).get_column("count").sum() == len(linked.timeline.of_role(Role.DEVICE_WORK))
