"""Metrics of any program are in their ranges, and those that share a whole add up to it."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings

from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tests.planted.scenes import clean
from tests.unit.linking.made import linked_of
from tracebraid.analysis.metrics.catalog import METRICS as BUILT_IN
from tracebraid.api import metrics
from tracebraid.model.answers import METRICS, MetricLack
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Unit

steady = settings(deadline=None, derandomize=True, max_examples=25, database=None)

PARTS = ("compute_share", "exposed_communication_share", "exposed_memory_share", "idle_share")
UNBOUNDED = {"mfu", "hfu"}
"""Shares of a stated peak, which may be too low."""
REASONS = {need.value for need in Need} | {lack.value for lack in MetricLack}


def check_metrics(frame: pl.DataFrame) -> None:
    assert frame.schema == METRICS.polars_schema()
    assert frame.get_column("metric").unique(maintain_order=True).to_list() == [m.name for m in BUILT_IN]
    for row in frame.to_dicts():
        _check_row(row)
    for rank in frame.get_column("rank").unique().to_list():
        _check_parts(frame.filter(pl.col("rank").eq_missing(rank)))


def _check_row(row: dict[str, Any]) -> None:
    numbers = [row[name] for name in ("low", "value", "high") if row[name] is not None]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    assert (row["value"] is None) == (row["lacks"] is not None)
    assert row["lacks"] is None or row["lacks"] in REASONS
    assert numbers == sorted(numbers) or math.isclose(numbers[0], numbers[-1])
    if row["unit"] == Unit.SHARE.value and row["metric"] not in UNBOUNDED:
        assert all(number <= 1 + 1e-9 for number in numbers)
    if row["metric"] == "load_imbalance" and row["rank"] is None:
        assert all(number >= 1 - 1e-9 for number in numbers)


def _check_parts(rows: pl.DataFrame) -> None:
    values = dict(rows.select("metric", "value").rows())
    parts = [values[name] for name in PARTS]
    assert all(part is None for part in parts) or sum(parts) == pytest.approx(1)
    if values["launch_bound_share"] is not None:
        assert values["launch_bound_share"] <= values["idle_share"] + 1e-9


@given(scenes())
@steady
def test_metrics_of_any_program_are_in_their_ranges(scene: Scene) -> None:
    check_metrics(metrics(scene.linked()))


def test_an_empty_trace_has_no_metric() -> None:
    found = metrics(linked_of([]))
    check_metrics(found)
    assert found.get_column("value").is_null().all()


def test_what_is_asked_for_alone_is_as_among_all() -> None:
    linked = clean().linked()
    every = metrics(linked)
    for metric in BUILT_IN:
        alone = metrics(linked, only=[metric.name])
        assert alone.rows() == every.filter(pl.col("metric") == metric.name).rows()
