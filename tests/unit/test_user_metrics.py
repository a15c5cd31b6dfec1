"""A user's metric: a function of a rank."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

import tracebraid
from tests.planted import Scene
from tests.planted.scenes import clean
from tracebraid.analysis.metrics.memory import RankFunction
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.job import MetricLack

FAILED, NOTHING = MetricLack.METRIC_FAILED.value, MetricLack.NOTHING_TO_MEASURE.value


@pytest.fixture(scope="module")
def scene() -> Scene:
    return clean(steps=3)


def measured(scene: Scene, function: RankFunction, **options: Any) -> dict[str, Any]:
    metric = tracebraid.plugins.metric(name="own", unit="apples", **options)(function)
    return tracebraid.metrics(scene.linked(), only=[metric]).row(0, named=True)


def test_a_number_is_the_value_in_the_user_s_unit(scene: Scene) -> None:
    row = measured(scene, lambda linked: float(linked.timeline.events.height))
    assert row["value"] == scene.linked().timeline.events.height
    assert (row["unit"], row["lacks"], row["steps"]) == ("apples", None, None)


def test_a_number_for_each_step_has_an_interval(scene: Scene) -> None:
    row = measured(scene, lambda _: [-1.0, -2.0, -3.0])
    assert (row["value"], row["steps"]) == (-2.0, 3)
    assert row["low"] < -3
    assert row["high"] > -1


@pytest.mark.slow
@pytest.mark.parametrize("said", [None, math.nan, math.inf, [], [None]])
def test_no_finite_number_is_no_value(scene: Scene, said: float | Iterable[float | None] | None) -> None:
    row = measured(scene, lambda _: said)
    assert (row["value"], row["lacks"]) == (None, NOTHING)


@pytest.mark.parametrize("said", ["3", True, object()])
def test_what_is_no_number_is_a_failure(scene: Scene, said: Any) -> None:
    row = measured(scene, lambda _: said)
    assert (row["value"], row["lacks"]) == (None, FAILED)


def test_an_exception_is_a_failure(scene: Scene) -> None:
    row = measured(scene, lambda linked: linked.nonsense)  # type: ignore[attr-defined]
    assert (row["value"], row["lacks"]) == (None, FAILED)


def test_without_what_it_needs_it_is_not_called(scene: Scene) -> None:
    called: list[int] = []

    def counting(linked: tracebraid.LinkedTrace) -> float:
        called.append(linked.rank)
        return 1.0

    row = measured(scene, counting, needs=[tracebraid.plugins.Need.COUNTERS])
    assert (row["value"], row["lacks"], called) == (None, tracebraid.plugins.Need.COUNTERS.value, [])


@pytest.mark.parametrize("options", [{"name": "Not Good"}, {"name": "good", "over_ranks": "median"}])
def test_names_and_ways_that_do_not_exist_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.plugins.metric(unit="ns", **options)(lambda _: 1.0)
