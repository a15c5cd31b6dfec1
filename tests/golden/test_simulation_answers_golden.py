"""What the sweep and straggler metrics promise, on every real trace."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.golden.graphs import JOBS, graph_of
from tests.golden.test_analyze_golden import FILES

pytestmark = pytest.mark.traces


@pytest.mark.parametrize("name", sorted([*FILES, *JOBS]))
def test_gains_are_bounded_and_metrics_are_numbers(real_traces: Path, name: str) -> None:
    graph = graph_of(real_traces, name)
    swept = tracebraid.sweep(graph)
    steps = graph.steps.get_column("step").unique().len()
    gains = [pl.col(f"gain_{percent}_ns") for percent in (10, 50, 100)]
    bounded = swept.filter(gains[0].is_not_null()).select(
        low=(gains[0] >= 0) & (gains[0] <= gains[1]) & (gains[1] <= gains[2]),
        path=(gains[2] * steps).round() <= pl.col("on_path_ns"),
        total=pl.col("on_path_ns") <= pl.col("total_ns"),
    )
    assert bounded.select(pl.all_horizontal(pl.all()).all()).item()
    metrics = tracebraid.straggler_metrics(graph)
    for column in ("value", "step_ns", "ideal_ns"):
        assert all(math.isfinite(value) for value in metrics.get_column(column).drop_nulls())
    assert metrics.filter(pl.col("metric") == "S").height == 1
