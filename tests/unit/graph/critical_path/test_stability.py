"""Perturbed replays: durations of other steps decide how often an op is on the path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.unit.graph.critical_path.made import Wait, graph_of, step_row
from tests.unit.graph.critical_path.test_walk import path_of
from tracebraid.graph.critical_path.resampling import samples
from tracebraid.model.graph.dependency_graph import DependencyGraph

REPLAYS = 400


def of_steps(durations: list[tuple[int, int]]) -> DependencyGraph:
    """In each step two ops run side by side, `fast` and `slow`: activities 2n and 2n + 1."""
    waits, steps = [], []
    for number, (fast, slow) in enumerate(durations):
        start, end = 4 * number, 4 * number + 3
        if number:
            waits.append(Wait(start - 1, start, 0, activity=2 * number))
        waits += [
            Wait(start, start + 1, 0, activity=2 * number),
            Wait(start, start + 2, 0, activity=2 * number + 1),
            Wait(start + 1, end, fast, activity=2 * number),
            Wait(start + 2, end, slow, activity=2 * number + 1),
        ]
        steps.append(step_row(f"s#{number}", start, end))
    graph = graph_of(waits, [0] * (4 * len(durations)), steps)
    names = ["fast", "slow"] * len(durations)
    labels = [f"s#{number}" for number in range(len(durations)) for _ in range(2)]
    activities = graph.activities.with_columns(
        pl.Series("name", names, dtype=pl.Categorical), pl.Series("step", labels, dtype=pl.Categorical)
    )
    return replace(graph, activities=activities)


def test_an_op_is_on_the_path_as_often_as_the_durations_of_the_steps_say() -> None:
    found = path_of(of_steps([(10, 20), (30, 20), (10, 20), (30, 20)]), replays=REPLAYS)
    shares = found.stability.group_by(pl.col("name").cast(pl.String)).agg(pl.col("on_path").mean())
    assert dict(shares.iter_rows()) == pytest.approx({"fast": 0.5, "slow": 0.5}, abs=0.06)


def test_an_op_that_is_always_longest_is_always_on_the_path() -> None:
    found = path_of(of_steps([(10, 20), (11, 21), (12, 22)]), replays=REPLAYS)
    assert found.stability["on_path"].to_list() == [1.0] * 3
    assert found.segments["on_path"].to_list() == [1.0] * 3
    assert found.stability["is_on_path"].all()


def test_the_same_every_time() -> None:
    graph = of_steps([(10, 20), (30, 20), (10, 20)])
    assert path_of(graph, replays=50).stability.equals(path_of(graph, replays=50).stability)


def test_without_replays_nothing_is_said() -> None:
    found = path_of(of_steps([(10, 20)]), replays=0)
    assert found.stability.is_empty()
    assert found.segments["on_path"].to_list() == [None]


def test_durations_are_those_of_the_same_position_in_other_steps_else_of_the_same_name() -> None:
    drawn = samples(of_steps([(10, 20), (30, 40)]))
    group = [sorted(drawn.work_ns[f : f + n]) for f, n in zip(drawn.first, drawn.count, strict=True)]
    assert group == [[10, 30], [20, 40], [10, 30], [20, 40]]
    single = of_steps([(10, 20)])
    single = replace(
        single, activities=single.activities.with_columns(pl.lit("same", dtype=pl.Categorical).alias("name"))
    )
    drawn = samples(single)
    assert drawn.count.tolist() == [2, 2]
    assert np.sort(drawn.work_ns).tolist() == [10, 20]
