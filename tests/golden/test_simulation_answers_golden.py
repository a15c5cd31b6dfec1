"""What the sweep and straggler metrics promise, on every real trace."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.conftest import find_real_traces
from tracebraid.api.graphing import dependency_graph

_FOLDER = find_real_traces()
_FORMS = ("kineto/*", "pairs/*")
_PATHS = [path for form in _FORMS for path in (_FOLDER.glob(form) if _FOLDER else ())]
_TRACES = sorted("/".join(path.parts[-2:]) for path in _PATHS)

pytestmark = pytest.mark.traces


@pytest.mark.parametrize("name", _TRACES or ["absent"])
def test_gains_are_bounded_and_metrics_are_numbers(real_traces: Path, name: str) -> None:
    graph = dependency_graph(tracebraid.open(real_traces / name))
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
