"""Advice is ranked by what it saves, bounded by the time of its occurrences, and altogether by the step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cases import cases
from tracebraid.analysis.antipatterns.known_detectors import FOUND
from tracebraid.analysis.antipatterns.ranking import (
    WINDOWS,
    MinSaving,
    ProfilerCost,
    Ranked,
    counted_windows,
    cut_at_steps,
    estimated,
    min_saving_of,
)
from tracebraid.analysis.antipatterns.ranking import ranked as ranked_by
from tracebraid.analysis.antipatterns.ranks import RANKS_DETECTOR
from tracebraid.errors import ArgumentError
from tracebraid.model.questions import AnyDetector


def ranked(
    evidence: pl.DataFrame,
    windows: pl.DataFrame,
    least: MinSaving,
    detectors: Mapping[str, AnyDetector] | None = None,
) -> Ranked:
    """Ranked without a replay: an item saves the time that it covers."""
    nothing = pl.DataFrame(
        schema={"item": pl.Int64, "gain_ns": pl.Int64, "device_gain_ns": pl.Int64, "host_events": pl.Float64}
    )
    estimator = partial(estimated, gains=lambda _: nothing, profiler=ProfilerCost(0.0))
    return ranked_by(evidence, windows, least, estimator, detectors or {})


def windows_of(steps: list[tuple[int, str | None, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(steps, schema=WINDOWS, orient="row")


def evidence_of(rows: list[tuple[str, int, int, int, int]]) -> pl.DataFrame:
    """Detector, rank, start, end, saving."""
    frame = pl.DataFrame(rows, schema=["detector", "rank", "start_ns", "end_ns", "saving_ns"], orient="row")
    found = frame.with_columns(pl.lit(None).alias(name) for name in FOUND if name not in frame.columns)
    return found.select(pl.col(name).cast(dtype) for name, dtype in FOUND.items())


TWO_STEPS = windows_of([(0, "step#1", 0, 100), (0, "step#2", 100, 200)])


def test_a_symptom_saves_nothing_beside_its_cause() -> None:
    late = replace(RANKS_DETECTOR, name="late")
    evidence = evidence_of([("python", 0, 10, 40, 30), ("late", 0, 50, 75, 25)])
    for detectors, further in (({}, [30, 25]), ({"late": late}, [30, 0])):
        found = ranked(evidence, TWO_STEPS, MinSaving(), detectors)
        assert found.items.get_column("further_ns").to_list() == further
        assert found.items.get_column("under").to_list() == [None, 1 if detectors else None]


@cases(
    "first_ns, steps",
    {
        "as long as on the other": (110, [(0, "step#2"), (1, "step#2"), (2, None)]),
        "waits for the other's recording": (150, [(0, "step#1"), (0, "step#2"), (1, "step#2"), (2, None)]),
    },
)
@pytest.mark.parametrize("named", [True, False])
def test_a_step_that_is_warm_up_on_a_rank(
    first_ns: int, steps: list[tuple[int, str | None]], named: bool
) -> None:
    rows: list[tuple[int, str | None, int, int, bool]] = [
        (0, "step#1", 0, 100, False),
        (0, "step#2", 100, 200, False),
        (1, "step#1", 200 - first_ns, 200, True),
        (1, "step#2", 200, 300, False),
        (2, None, 0, 9, False),
    ]
    windows = pl.DataFrame(rows, schema={**WINDOWS, "warm_up": pl.Boolean()}, orient="row")
    if not named:
        windows = windows.with_columns(step=pl.when(pl.col("step").is_not_null()).then(pl.lit("step")))
        steps = [(rank, step and "step") for rank, step in steps]
    found = counted_windows(windows)
    assert found.select("rank", "step").rows() == steps
    assert found.schema == pl.Schema(WINDOWS)


def rows_of(found: Ranked) -> list[tuple[Any, ...]]:
    return found.items.select("item", "detector", "count", "steps", "saving_ns", "further_ns").rows()


@cases(
    "rows, items",
    {
        "the most comes first": (
            [("small", 0, 10, 40, 20), ("large", 0, 30, 90, 60)],
            [(1, "large", 1, 1, 60, 60), (2, "small", 1, 1, 20, 20)],
        ),
        "and covers what follows": (
            [("small", 0, 25, 40, 15), ("large", 0, 30, 90, 60)],
            [(1, "large", 1, 1, 60, 60), (2, "small", 1, 1, 15, 5)],
        ),
        "over two steps": ([("wide", 0, 90, 130, 25)], [(1, "wide", 1, 2, 25, 25)]),
        "in no step": ([("late", 0, 250, 300, 50)], []),
        "overlapping": ([("a", 0, 10, 30, 20), ("a", 0, 20, 40, 20)], [(1, "a", 2, 1, 30, 30)]),
        "in another": ([("a", 0, 0, 90, 10), ("a", 0, 20, 40, 20)], [(1, "a", 1, 1, 30, 30)]),
        "no more than the time": ([("a", 0, 0, 50, 45), ("a", 0, 20, 40, 20)], [(1, "a", 1, 1, 50, 50)]),
    },
)
def test_occurrences_become_items(
    rows: list[tuple[str, int, int, int, int]], items: list[tuple[Any, ...]]
) -> None:
    assert rows_of(ranked(evidence_of(rows), TWO_STEPS, MinSaving())) == items


def test_savings_are_per_step_and_shared_out_among_steps() -> None:
    found = ranked(evidence_of([("small", 0, 10, 40, 20), ("wide", 0, 90, 130, 25)]), TWO_STEPS, MinSaving())
    assert found.items.select("detector", "saving_per_step_ns", "share").rows() == [
        ("wide", 12.5, 0.125),
        ("small", 10.0, 0.1),
    ]
    rows = found.by_step.filter(item=1).select("step", "saving_ns", "count").rows()
    assert rows == [("step#1", 10, 1), ("step#2", 15, 1)]
    assert found.evidence.get_column("rank").to_list() == [0] * 3


def test_a_job_is_as_slow_as_its_slowest_rank() -> None:
    steps = windows_of([(0, "s#1", 0, 100), (1, "s#1", 1000, 1100)])
    evidence = evidence_of([("a", 0, 0, 30, 30), ("a", 1, 1000, 1050, 50), ("b", 0, 30, 60, 30)])
    found = ranked(evidence, steps, MinSaving())
    assert rows_of(found) == [(1, "a", 2, 1, 50, 50), (2, "b", 1, 1, 30, 10)]


def test_the_whole_trace_counts_where_no_step_is_marked() -> None:
    found = ranked(evidence_of([("a", 0, 10, 30, 20)]), windows_of([(0, None, 0, 100)]), MinSaving())
    assert (found.steps, found.step_ns) == (0, 100.0)
    assert rows_of(found) == [(1, "a", 1, 0, 20, 20)]


@pytest.mark.full
@pytest.mark.slow
@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=8)
)
def test_occurrences_save_together_what_they_do_up_to_their_time(drawn: list[tuple[int, int, int]]) -> None:
    rows = [("same", 0, start, start + long, min(save, long)) for start, long, save in drawn]
    found = ranked(evidence_of(rows), TWO_STEPS, MinSaving()).items.item(0, "saving_ns")
    groups: list[tuple[int, int]] = []
    for _, _, start, end, save in sorted(rows):
        if not groups or start >= groups[-1][0]:
            groups.append((end, 0))
        groups[-1] = (max(groups[-1][0], end), groups[-1][1] + save)
    covered = len({t for _, _, start, end, _ in rows for t in range(start, end)})
    assert found <= min(covered, sum(save for _, save in groups))
    if len(groups) == 1:
        assert found == min(covered, groups[0][1])


@pytest.mark.parametrize(
    ("least", "detectors"), [({"share": 0.02}, ["large"]), ({"ns": 1.0}, ["large", "small"])]
)
def test_what_saves_too_little_is_left_out(least: dict[str, float], detectors: list[str]) -> None:
    evidence = evidence_of([("small", 0, 0, 2, 2), ("large", 0, 0, 40, 40)])
    found = ranked(evidence, TWO_STEPS, MinSaving(**least)).items
    assert found.get_column("detector").to_list() == detectors


def test_the_worst_occurrences_are_kept() -> None:
    rows = [("a", 0, start, start + long, long) for start, long in ((0, 5), (10, 9), (20, 7), (30, 2))]
    worst = ranked(evidence_of(rows), TWO_STEPS, MinSaving()).evidence
    assert worst.get_column("saving_ns").to_list() == [9, 7, 5]


occurrences = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 2),
        st.integers(-50, 450),
        st.integers(1, 200),
        st.integers(1, 300),
    ),
    max_size=30,
)

bounds = st.lists(st.integers(0, 400), min_size=2, max_size=6, unique=True)


@pytest.mark.full
@pytest.mark.slow
@settings(max_examples=100, derandomize=True, deadline=None)
@given(occurrences, bounds, st.booleans())
def test_savings_are_bounded(
    drawn: list[tuple[str, int, int, int, int]], cuts: list[int], gaps: bool
) -> None:
    moments = sorted(cuts)
    spans = list(pairwise(moments))[:: 2 if gaps else 1]
    steps = windows_of([(rank, f"s#{n}", a, b) for rank in range(3) for n, (a, b) in enumerate(spans)])
    rows = [(name, rank, start, start + long, min(save, long)) for name, rank, start, long, save in drawn]
    found = ranked(evidence_of(rows), steps, MinSaving())
    by_step = found.by_step
    assert (by_step.get_column("further_ns") >= 0).all()
    assert (by_step.get_column("further_ns") <= by_step.get_column("saving_ns")).all()
    assert (by_step.get_column("saving_ns") <= by_step.get_column("step_ns")).all()
    together = by_step.group_by("rank", "step").agg(pl.col("further_ns").sum(), pl.col("step_ns").first())
    assert (together.get_column("further_ns") <= together.get_column("step_ns")).all()
    items = found.items
    assert (items.get_column("further_ns") >= 0).all()
    assert (items.get_column("further_ns") <= items.get_column("saving_ns")).all()
    assert items.get_column("further_ns").sum() <= sum(b - a for a, b in spans)
    own = items.filter(pl.col("under").is_null()).get_column("saving_ns").to_list()
    assert own == sorted(own, reverse=True)
    covered = {
        (rank, t) for _, rank, a, b, _ in rows for t in range(a, b) if any(s <= t < e for s, e in spans)
    }
    of_rank = by_step.group_by("rank").agg(pl.col("further_ns").sum())
    for rank, further in of_rank.iter_rows():
        assert further <= sum(1 for at, _ in covered if at == rank)


@pytest.mark.full
@pytest.mark.slow
@settings(derandomize=True, deadline=None)
@given(occurrences, bounds)
def test_parts_have_what_the_whole_has_in_steps_without_gaps(
    drawn: list[tuple[str, int, int, int, int]], cuts: list[int]
) -> None:
    edges = [-1000, *sorted(cuts), 1000]
    steps = windows_of(
        [(rank, f"s#{n}", edges[n], edges[n + 1]) for rank in range(3) for n in range(len(edges) - 1)]
    )
    rows = [(name, rank, start, start + long, min(save, long)) for name, rank, start, long, save in drawn]
    parts = cut_at_steps(evidence_of(rows), steps)
    assert parts.get_column("saving_ns").sum() == sum(row[-1] for row in rows)
    long = parts.get_column("end_ns") - parts.get_column("start_ns")
    assert np.all(parts.get_column("saving_ns").to_numpy() <= long.to_numpy())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1%", MinSaving(share=0.01)),
        ("0.5ms", MinSaving(ns=500_000.0)),
        ("20us", MinSaving(ns=20_000.0)),
        (" 3 µs ", MinSaving(ns=3_000.0)),
        (0.25, MinSaving(share=0.25)),
        (0, MinSaving()),
    ],
)
def test_least_savings(value: str | float, expected: MinSaving) -> None:
    assert min_saving_of(value) == expected


@pytest.mark.parametrize("value", ["", "1", "-1%", "101%", "1 h", "nan", 1.5, -0.1, float("nan"), True])
def test_what_is_no_least_saving(value: str | float) -> None:
    with pytest.raises(ArgumentError):
        min_saving_of(value)
