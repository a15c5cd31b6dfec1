"""Metrics on real traces: those of the analyses, of HTA where it has them, and in their ranges."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

from tests.golden.test_analyze_golden import FILES, linked_file
from tests.golden.test_idle_golden import DLRM
from tests.property.test_time import check_metrics
from tracebraid import metrics, open
from tracebraid.analyses import breakdown, mfu, step_spread
from tracebraid.model.linked_trace import LinkedTrace

ALL = {**FILES, **DLRM}


def values(linked: LinkedTrace) -> dict[str, float | None]:
    found = metrics(linked)
    check_metrics(found)
    ranks = found.filter(pl.col("rank").is_not_null())
    return dict(ranks.select("metric", "value").rows())


@pytest.mark.parametrize("name", sorted(ALL))
def test_metrics_are_those_of_the_analyses(real_traces: Path, name: str) -> None:
    linked = linked_file(real_traces / ALL[name])
    found = values(linked)
    spread = step_spread(linked).filter(pl.col("part") == "span").head(1)
    for column in ("mean", "median", "p95"):
        wanted = spread.get_column(f"{column}_ns").to_list() or [None]
        assert found[f"step_time_{column}"] == pytest.approx(wanted[0])
    counted = spread.get_column("count").sum() if spread.height else None
    assert found["steps_counted"] in (counted, 0, None)


@pytest.mark.parametrize("name", ["a100_alexnet_cuda_sync", "linear_2080ti", "simple_add_a100"])
def test_shares_of_a_trace_without_steps_are_those_of_hta(real_traces: Path, name: str) -> None:
    """HTA's temporal breakdown of the whole trace, in whole µs and in percent of two decimals."""
    (row,) = list(
        csv.DictReader(
            (real_traces / "expected/hta" / name / "temporal_breakdown.csv").read_text().splitlines()
        )
    )
    found = values(linked_file(real_traces / ALL[name]))
    assert found["idle_share"] == pytest.approx(float(row["idle_time_pctg"]) / 100, abs=1e-4)
    assert found["compute_share"] == pytest.approx(float(row["compute_time_pctg"]) / 100, abs=1e-4)


def test_shares_of_steps_are_those_of_the_breakdown(real_traces: Path) -> None:
    linked = linked_file(real_traces / ALL["v100_rank1of2_54MB"])
    found = values(linked)
    steps = breakdown(linked).filter(pl.col("step").is_not_null())
    sums = {name: int(steps.get_column(name).sum()) for name in steps.columns if name.endswith("_ns")}
    for share in ("compute", "exposed_communication", "exposed_memory", "idle", "communication"):
        assert found[f"{share}_share"] == pytest.approx(sums[f"{share}_ns"] / sums["span_ns"])
    assert found["communication_overlap"] == pytest.approx(sums["overlap_ns"] / sums["communication_ns"])


def test_the_utilisation_of_a_single_step_is_that_of_mfu(real_traces: Path) -> None:
    linked = linked_file(real_traces / ALL["h100_qwen_stack_memory"])
    found = values(linked)
    row = mfu(linked).filter(pl.col("step").is_not_null()).row(0, named=True)
    assert (found["mfu"], found["hfu"]) == pytest.approx((row["mfu"], row["hfu"]))
    assert found["model_flops_per_second"] == pytest.approx(row["model_flops_per_s"])


@pytest.mark.full
@pytest.mark.parametrize("name", ["pairs/dlrm_v100_8rank", "kineto/sampled_2_of_128"])
def test_a_job_lies_between_its_ranks(real_traces: Path, name: str) -> None:
    found = metrics(open(real_traces / name))
    check_metrics(found)
    for share in ("compute_share", "idle_share", "wait_share"):
        of_share = found.filter(pl.col("metric") == share)
        (job,) = of_share.filter(pl.col("rank").is_null()).get_column("value").to_list()
        ranks = of_share.filter(pl.col("rank").is_not_null()).get_column("value").to_list()
        assert min(ranks) <= job <= max(ranks)
    imbalance = found.filter((pl.col("metric") == "load_imbalance") & pl.col("rank").is_null())
    assert imbalance.item(0, "value") > 1
