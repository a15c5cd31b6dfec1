"""What lies in doubtful steps counts in sums, and in means only if asked for."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.planted import CALL_NS, Scene
from tracebraid.analysis import step_rows
from tracebraid.analysis.answering import doubtful_steps
from tracebraid.analysis.ops.annotations.annotation_kernels import annotation_kernels
from tracebraid.analysis.ops.annotations.user_annotations import user_annotations
from tracebraid.analysis.ops.ops import ops
from tracebraid.model.linked_trace import LinkedTrace


def linked() -> LinkedTrace:
    """Steps 1 and 2; in the second all lasts ten times as long."""
    scene = Scene(device_annotations=True)
    host, stream = scene.thread(), scene.stream()
    for number, factor in ((1, 1), (2, 10)):
        with host.step(number), host.annotation("part"), host.op("aten::mm", 10_000 * factor - CALL_NS):
            host.launch(stream, "gemm", 300 * factor)
    return scene.linked()


@pytest.fixture
def _doubts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`validity` has a doubt about step 2."""
    monkeypatch.setattr(step_rows, "doubtful_steps", lambda *_: pl.Series("step", ["ProfilerStep#2"]))


def row(answer: Any, name: str, **options: Any) -> dict[str, Any]:
    return {row["name"]: row for row in answer(linked(), **options).to_dicts()}[name]


@pytest.mark.usefixtures("_doubts")
def test_means_leave_doubtful_steps_out_and_sums_do_not() -> None:
    found = row(ops, "aten::mm")
    assert (found["host_mean_ns"], found["host_median_ns"], found["host_p95_ns"]) == (10_000, 10_000, 10_000)
    assert (found["host_total_ns"], found["host_max_ns"], found["device_mean_ns"]) == (110_000, 100_000, 300)
    assert row(user_annotations, "part")["host_mean_ns"] == 10_000
    assert row(user_annotations, "part")["device_range_mean_ns"] == 300
    assert row(annotation_kernels, "gemm")["mean_ns"] == 300


@pytest.mark.usefixtures("_doubts")
def test_means_have_them_if_asked_for() -> None:
    assert row(ops, "aten::mm", with_doubtful=True)["host_mean_ns"] == 55_000
    assert row(user_annotations, "part", with_doubtful=True)["device_range_mean_ns"] == 1_650
    assert row(annotation_kernels, "gemm", with_doubtful=True)["mean_ns"] == 1_650


@pytest.mark.usefixtures("_doubts")
def test_the_row_of_a_doubtful_step_has_its_means() -> None:
    rows = ops(linked(), per_step=True).filter(name="aten::mm").to_dicts()
    assert [found["host_mean_ns"] for found in rows] == [10_000, 100_000]


def test_without_doubts_all_counts() -> None:
    assert doubtful_steps(linked()).is_empty()
    assert row(ops, "aten::mm")["host_mean_ns"] == 55_000
