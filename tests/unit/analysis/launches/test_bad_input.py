"""Traces that are empty, damaged or strange: an answer of the schema, never an error, no number that is none."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.builders import Json, call, complete, flow, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.catalog import ANALYSES
from tracebraid.analysis.launches.copies.copies import copies
from tracebraid.model.questions.analysis import Analysis

STEP = op("ProfilerStep#1", 0, 100, cat="user_annotation")
RANGE: Json = {"flops": None, "dram": [1], "": "x"}


def fill(number: int, size: object, bandwidth: object) -> Json:
    found = kernel("Memset (Device)", 10 * number, 5, number, cat="gpu_memset")
    found["args"] |= {"bytes": size, "memory bandwidth (GB/s)": bandwidth}
    return found


TRACES: dict[str, list[Json]] = {
    "nothing": [],
    "one op": [op("a", 0, 5)],
    "one kernel": [kernel("k", 0, 5, 1)],
    "one call": [call("cudaDeviceSynchronize", 0, 5, 1)],
    "no durations": [STEP, call("cudaMemcpy", 5, 0, 1), kernel("Memcpy HtoD (Pinned -> Device)", 5, 0, 1)],
    "no correlation": [complete("cudaLaunchKernel", "cuda_runtime", 0, 5, 1, 1), kernel("k", 3, 5, 0)],
    "one correlation for all": [c for i in range(4) for c in (call("l", i, 1, 7), kernel("k", 9 + i, 1, 7))],
    "no stream": [complete("k", "kernel", 5, 5, 0, 7, {"correlation": 1}), call("l", 0, 2, 1)],
    "names of lanes": [complete("k", "kernel", 5, 5, "GPU", "queue", {"correlation": 1}), call("l", 0, 2, 1)],
    "steps that overlap": [
        STEP,
        op("ProfilerStep#2", 50, 100, cat="user_annotation"),
        op("ProfilerStep#1", 70, 10, cat="user_annotation"),
        *(call("l", 20 * i, 5, i + 1) for i in range(6)),
        *(kernel("k", 20 * i + 7, 5, i + 1) for i in range(6)),
    ],
    "work before its call": [
        call("l", 50, 5, 1),
        kernel("k", 10, 5, 1),
        call("cudaDeviceSynchronize", 8, 9, 2),
    ],
    "durations that overflow": [
        call("l", 0, 9e15, 1),
        kernel("Memcpy DtoH (Device -> Pageable)", 5, 9e15, 1, cat="gpu_memcpy", bytes=4),
        call("cudaMemcpy", 5, 9e15, 2),
    ],
    "negative durations": [call("cudaMemcpy", 50, -5, 1), kernel("k", 60, -5, 1), op("a", 40, -8)],
    "values of other types": [fill(1, "many", "inf"), fill(2, -4, -1)],
    "counters without numbers": [complete("gemm", "cuda_profiler_range", 0, 5, 0, 0, RANGE)],
    "only flows": [flow("s", 1, 5), flow("f", 1, 9)],
}


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_every_answer_has_its_schema_and_finite_numbers(analysis: Analysis, name: str) -> None:
    linked = linked_of(TRACES[name])
    for options in [{}, {"per_step": True}] if "per_step" in analysis.options else [{}]:
        table = analysis.answer(linked, **options)
        assert dict(table.schema) == analysis.table.polars_schema()
        floats = table.select(pl.col(pl.Float64))
        assert all(np.isfinite(column.drop_nulls().to_numpy()).all() for column in floats)


def test_very_large_copies_have_a_bandwidth() -> None:
    name, size = "Memcpy DtoD (Device -> Device)", 40 * 10**9
    linked = linked_of([kernel(name, 20 * i, 10, i, cat="gpu_memcpy", bytes=size) for i in (1, 2)])
    (row,) = copies(linked).to_dicts()
    assert row["bandwidth_bytes_per_s"] == row["max_bandwidth_bytes_per_s"] == pytest.approx(4e15)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_every_analysis_takes_another_annotation_for_its_steps(analysis: Analysis) -> None:
    linked = linked_of(
        [op("train#1", 0, 90, cat="user_annotation"), call("cudaLaunchKernel", 5, 2, 1), kernel("k", 9, 5, 1)]
    )
    table = analysis.answer(linked, annotation="train")
    assert set(table.get_column("step")) <= {"train#1", None}
