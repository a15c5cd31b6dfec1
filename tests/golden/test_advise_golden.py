"""Advice on real traces: bounds hold, and where nothing is wrong nothing is said."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.conftest import find_real_traces
from tracebraid.errors import InputError

REAL = find_real_traces()
_PATHS = [] if REAL is None else [*sorted((REAL / "kineto").iterdir()), *sorted((REAL / "pairs").iterdir())]
_MISSING = pytest.mark.skip("needs the real traces: set TRACEBRAID_TRACES to their folder")
PATHS = [pytest.param(path, id=path.name, marks=pytest.mark.traces) for path in _PATHS] or [
    pytest.param(None, marks=_MISSING, id="real traces")
]


@cache
def asked(path: Path) -> tracebraid.results.Advice | str:
    """The advice, or why there is none; asked for once for all tests."""
    try:
        return tracebraid.advise(tracebraid.open(path), 0)
    except InputError as error:
        return str(error)


def advice_on(path: Path) -> tracebraid.results.Advice:
    advice = asked(path)
    if isinstance(advice, str):
        pytest.skip(advice)
    return advice


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("path", PATHS)
def test_savings_are_bounded(path: Path) -> None:
    advice = advice_on(path)
    items, by_step, evidence = advice.items, advice.by_step, advice.evidence
    assert ((items.get_column("further_ns") >= 0) & (items["further_ns"] <= items["saving_ns"])).all()
    assert advice.saving_per_step_ns <= advice.step_ns * (1 + 1e-9)
    together = by_step.group_by("rank", "step").agg(pl.col("further_ns").sum(), pl.col("step_ns").first())
    assert (together.get_column("further_ns") <= together.get_column("step_ns")).all()
    assert (evidence["saving_ns"] <= evidence["end_ns"] - evidence["start_ns"]).all()
    assert advice.findings == () or all(
        finding.code.value != "detector-failed" for finding in advice.findings
    )


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("path", PATHS)
def test_an_item_saves_no_more_than_its_occurrences_cover(path: Path) -> None:
    items = advice_on(path).items
    low, high = items.get_column("saving_low_per_step_ns"), items.get_column("saving_high_per_step_ns")
    saving, bound = items.get_column("saving_per_step_ns"), items.get_column("bound_per_step_ns")
    assert ((low <= saving) & (saving <= high) & (saving <= bound * (1 + 1e-9))).all()


@pytest.mark.parametrize("path", PATHS)
def test_the_accounting_of_each_step_adds_up(path: Path) -> None:
    shares = advice_on(path).of_job.group_by("step").agg(pl.col("share").sum())
    assert ((shares.get_column("share") - 1).abs() < 1e-9).all()


@pytest.mark.traces
def test_a_device_that_works_all_the_time_bounds_threads_that_show_nothing(real_traces: Path) -> None:
    advice = advice_on(real_traces / "kineto/mtia_inference.json.gz")
    shares = advice.of_job.group_by("cause").agg(pl.col("ns").sum() / advice.step_ns)
    assert advice.by_device
    assert dict(shares.iter_rows())["compute"] > 0.85
    assert not tracebraid.advise(tracebraid.open(real_traces / "kineto/triton_example.json.gz")).by_device


@pytest.mark.traces
def test_launches_have_a_place(real_traces: Path) -> None:
    items = advice_on(real_traces / "kineto/a100_ddp_nccl_rank0of2.json.gz").items
    (row,) = items.filter(pl.col("detector") == "launch-bound").select("op", "subject").iter_rows()
    assert row == ("aten::cudnn_batch_norm", "DistributedDataParallel.forward")
