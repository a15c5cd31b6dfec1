"""Comparisons of real traces: of all with themselves and each other, and of one model on two devices."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.golden.test_analyze_golden import FILES, linked_file
from tests.golden.test_idle_golden import DLRM
from tracebraid.analysis.compare.compare import MatchedBy, compare
from tracebraid.analysis.compare.profiles import RankProfile, rank_profile
from tracebraid.model.answers.job import DiffChange, DiffPart
from tracebraid.model.device_peaks import COMPUTE
from tracebraid.model.questions import CautionCode, Comparison

ALL = {**FILES, **DLRM}
SUMS = ["a_ns", "b_ns", "difference_ns"]


@cache
def profile_of(path: Path) -> RankProfile:
    return rank_profile(linked_file(path))


def check(found: Comparison) -> None:
    assert found.parts.select(pl.col(SUMS).sum()).row(0) == found.steps.select(SUMS).row(0)
    for table in (found.steps, found.parts, found.ops, found.kernels):
        for name, dtype in table.schema.items():
            assert not dtype.is_float() or not table.get_column(name).is_nan().any()


@pytest.mark.parametrize("name", sorted(ALL))
def test_no_real_trace_differs_from_itself(real_traces: Path, name: str) -> None:
    profile = profile_of(real_traces / ALL[name])
    found = compare([[profile]], [[profile]])
    check(found)
    assert found.changed_ops.is_empty()
    assert found.changed_kernels.is_empty()
    for table in (found.steps, found.parts, found.ops, found.kernels):
        assert set(table.get_column("difference_ns")) <= {0}
        assert not table.get_column("significant").any()


@pytest.mark.parametrize("name", sorted(ALL))
def test_any_two_real_traces_are_compared(real_traces: Path, name: str) -> None:
    names = sorted(ALL)
    other = names[(names.index(name) + 1) % len(names)]
    a, b = (profile_of(real_traces / ALL[key]) for key in (name, other))
    found, swapped = compare([[a]], [[b]]), compare([[b]], [[a]])
    check(found)
    check(swapped)
    assert found.difference_ns == -swapped.difference_ns


def test_a_model_on_two_devices_is_matched_by_its_modules(real_traces: Path) -> None:
    a, b = (profile_of(real_traces / ALL[f"{name}_qwen_stack_memory"]) for name in ("h100", "mi300x"))
    found = compare([[a]], [[b]])
    matched = found.ops.filter(pl.col("matched_by").is_not_null())
    assert matched.height >= 0.9 * found.ops.height
    exact = matched.filter(pl.col("matched_by") == MatchedBy.PATH_AND_SHAPES.value)
    assert exact.height >= 0.99 * matched.height
    assert {CautionCode.DEVICES_DIFFER, CautionCode.FEW_STEPS} <= {caution.code for caution in found.cautions}
    gemms = found.kernels.filter(pl.col("op") == "aten::mm", pl.col("kind") == COMPUTE)
    renamed = gemms.filter(pl.col("change") == DiffChange.RENAMED.value)
    assert renamed.height > 80
    # rocBLAS and cuBLAS name their kernels so.
    assert renamed.get_column("kernel_b").str.starts_with("Cijk_").all()
    assert not renamed.get_column("kernel_a").str.starts_with("Cijk_").any()


def test_ranks_of_one_job_run_one_program(real_traces: Path) -> None:
    a, b = (profile_of(real_traces / ALL[name]) for name in sorted(DLRM)[:2])
    found = compare([[a]], [[b]])
    check(found)
    assert CautionCode.PROGRAMS_DIFFER not in {caution.code for caution in found.cautions}
    rest = found.parts.filter(pl.col("part") == DiffPart.REST.value)
    assert rest.is_empty()


@pytest.mark.full
def test_jobs_are_compared_rank_by_rank(real_traces: Path) -> None:
    folder = real_traces / "pairs/dlrm_v100_8rank"
    found = tracebraid.diff(folder, folder)
    check(found)
    assert found.steps.get_column("rank").to_list() == [None, 0, 1, 2, 3]
    spans = found.steps.filter(pl.col("rank").is_not_null()).get_column("a_ns")
    assert found.steps.item(0, "a_ns") == sum(spans) // 4
