"""Times of steps from times of moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tracebraid.model.schema.graph import GRAPH_STEPS
from tracebraid.simulation.step_times import (
    StepMoments,
    StepTimes,
    job_step_times,
    rank_step_times,
    step_moments,
)

TimesOf = Callable[[NDArray[np.int64], StepMoments], StepTimes]
Row = tuple[str | None, int, int, int | None, int | None]


def steps(*rows: Row) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=GRAPH_STEPS.polars_schema(), orient="row")


TWO_RANKS: Sequence[Row] = (
    ("one", 0, 0, 1, 2),
    ("one", 3, 3, 4, None),
    ("two", 0, 5, 6, 7),
    ("two", 3, 8, 9, None),
)
TIMES = np.array([0, 10, 14, 2, 12, 10, 20, 30, 12, 31])


def test_a_step_takes_from_the_end_of_the_step_before_to_its_own() -> None:
    found = rank_step_times(TIMES, step_moments(steps(*TWO_RANKS)))
    assert found.start_ns.tolist() == [0, 2, 10, 12]
    assert found.end_ns.tolist() == [14, 12, 30, 31]
    assert found.span_ns.tolist() == [14, 10, 20, 19]
    assert found.time_ns.tolist() == [14, 10, 16, 19]


def test_a_step_of_the_job_ends_with_its_last_rank() -> None:
    found = job_step_times(TIMES, step_moments(steps(*TWO_RANKS)))
    assert found.start_ns.tolist() == [0, 10]
    assert found.end_ns.tolist() == [14, 31]
    assert found.time_ns.tolist() == [14, 17]


@pytest.mark.parametrize("times_of", [rank_step_times, job_step_times])
def test_many_scenarios_at_once_with_the_chosen_moments_alone(times_of: TimesOf) -> None:
    whole = step_moments(steps(*TWO_RANKS, ("one", 5, 11, 12, 13)))
    times = np.stack([np.arange(14), np.arange(14) ** 2, np.arange(14)[::-1] * 3])
    chosen = whole.chosen
    assert 10 not in chosen
    together = times_of(times[:, chosen], whole.of_chosen())
    for row, scenario in enumerate(times):
        alone = times_of(scenario, whole)
        assert together.time_ns[row].tolist() == alone.time_ns.tolist()
        assert together.start_ns[row].tolist() == alone.start_ns.tolist()


def test_a_rank_that_lacks_a_step() -> None:
    rows: list[Row] = [
        ("a", 0, 0, 1, None),
        ("a", 1, 2, 3, None),
        ("b", 1, 4, 5, None),
        ("c", 0, 6, 7, None),
    ]
    found = rank_step_times(np.array([0, 5, 0, 6, 7, 9, 10, 15]), step_moments(steps(*rows)))
    assert found.time_ns.tolist() == [5, 6, 3, 10]


def test_no_time_is_negative_where_a_step_ends_before_an_earlier_step() -> None:
    rows: list[Row] = [("a", 0, 0, 1, 4), ("b", 0, 2, 3, None), ("c", 0, 5, 6, None)]
    found = rank_step_times(np.array([0, 5, 6, 8, 10, 11, 12]), step_moments(steps(*rows)))
    assert found.time_ns.tolist() == [10, 0, 2]
    assert found.time_ns.sum() == 12


def test_a_trace_without_steps_is_one_span() -> None:
    found = job_step_times(np.array([3, 9]), step_moments(steps((None, 0, 0, 1, None))))
    assert found.time_ns.tolist() == [6]


def test_no_steps_at_all() -> None:
    empty = step_moments(GRAPH_STEPS.empty())
    assert job_step_times(np.empty(0, dtype=np.int64), empty).time_ns.tolist() == []
    assert rank_step_times(np.empty(0, dtype=np.int64), empty).time_ns.tolist() == []
