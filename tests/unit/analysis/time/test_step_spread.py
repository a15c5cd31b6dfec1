"""How much steps differ."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from tests.builders import Json, kernel, op
from tests.unit.analysis.validity.training import is_device, linked, number_of, steps, without
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.step_spread import step_spread
from tracebraid.model.answers import STEP_SPREAD

LENGTHS = [100, 104, 110, 90, 120]


def events_of(lengths: list[int]) -> list[Json]:
    marks = [
        op(f"ProfilerStep#{n}", 1000 * n, length, cat="user_annotation") for n, length in enumerate(lengths)
    ]
    return [*marks, *(kernel("k", 1000 * n + 10, 20 + n, n + 1) for n in range(len(lengths)))]


def spread_of(events: list[Json], **options: Any) -> dict[str, dict[str, Any]]:
    return {row["part"]: row for row in step_spread(linked_of(events), **options).to_dicts()}


def test_the_figures_are_those_of_statistics() -> None:
    rows = spread_of(events_of(LENGTHS))
    spans = [1000 * length for length in LENGTHS]
    row = rows["span"]
    assert row["count"] == 5
    assert row["mean_ns"] == pytest.approx(statistics.mean(spans))
    assert row["median_ns"] == statistics.median(spans)
    assert row["std_ns"] == pytest.approx(statistics.stdev(spans))
    assert row["p95_ns"] == pytest.approx(statistics.quantiles(spans, n=20, method="inclusive")[-1])
    assert (row["min_ns"], row["max_ns"]) == (90_000, 120_000)
    assert row["variation"] == pytest.approx(statistics.stdev(spans) / statistics.mean(spans))
    compute = [1000 * (20 + n) for n in range(5)]
    assert (rows["compute"]["mean_ns"], rows["compute"]["max_ns"]) == (statistics.mean(compute), 24_000)
    assert rows["exposed_memory"]["variation"] is None
    assert rows["gap"]["count"] == 4
    assert list(rows) == ["span", "compute", "exposed_communication", "exposed_memory", "idle", "gap"]


def test_means_of_parts_add_up_to_that_of_the_span() -> None:
    rows = spread_of(events_of(LENGTHS))
    parts = ("compute", "exposed_communication", "exposed_memory", "idle")
    assert sum(rows[part]["mean_ns"] for part in parts) == pytest.approx(rows["span"]["mean_ns"])


def test_warm_up_is_left_out_unless_asked_for() -> None:
    events = events_of([900, 100, 100, 100])
    row = spread_of(events)["span"]
    assert (row["count"], row["max_ns"], row["warmup_left_out"]) == (3, 100_000, 1)
    row = spread_of(events, with_warmup=True)["span"]
    assert (row["count"], row["max_ns"], row["warmup_left_out"]) == (4, 900_000, 0)


def test_doubtful_steps_are_left_out_unless_asked_for() -> None:
    trace = linked(without(steps(4), lambda e: is_device(e) and number_of(e) == 2))
    row = step_spread(trace).row(1, named=True)
    assert (row["part"], row["count"], row["doubtful_left_out"]) == ("compute", 3, 1)
    assert row["variation"] == 0
    row = step_spread(trace, with_doubtful=True).row(1, named=True)
    assert (row["count"], row["min_ns"], row["doubtful_left_out"]) == (4, 0, 0)


def test_a_single_step_has_no_deviation() -> None:
    row = spread_of(events_of([100]))["span"]
    assert (row["count"], row["mean_ns"], row["std_ns"], row["variation"]) == (1, 100_000, None, None)
    assert "gap" not in spread_of(events_of([100]))


def test_without_steps_there_is_nothing() -> None:
    for events in ([], [kernel("k", 0, 1, 1)], [op("a", 0, 1)]):
        found = step_spread(linked_of(events))
        assert found.is_empty()
        assert found.schema == STEP_SPREAD.polars_schema()
