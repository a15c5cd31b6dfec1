"""When each step ran, and what belongs to it."""

from __future__ import annotations

import polars as pl

from tests.builders import Json, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.step_windows import step_of_moments
from tracebraid.analysis.time.steps import steps
from tracebraid.model.answers import STEPS


def mark(name: str, ts: float, dur: float, cat: str = "user_annotation", tid: int = 1) -> Json:
    return op(name, ts, dur, tid=tid, cat=cat)


def test_profiler_steps_come_in_the_order_of_time() -> None:
    linked = linked_of([mark("ProfilerStep#10", 200, 50), mark("ProfilerStep#9", 100, 90)])
    assert steps(linked).drop("doubtful").rows() == [
        (0, "ProfilerStep#9", 100_000, 190_000),
        (0, "ProfilerStep#10", 200_000, 250_000),
    ]


def test_another_annotation_marks_steps_with_or_without_number() -> None:
    linked = linked_of([mark("train", 0, 5), mark("train#2", 10, 5), mark("training", 20, 5)])
    assert steps(linked, "train").get_column("step").to_list() == ["train", "train#2"]


def test_one_step_can_be_named() -> None:
    linked = linked_of(
        [mark("ProfilerStep#1", 0, 5), mark("ProfilerStep#2", 10, 5), mark("ProfilerStep#12", 20, 5)]
    )
    assert steps(linked, "ProfilerStep#1").get_column("step").to_list() == ["ProfilerStep#1"]


def test_an_op_can_mark_steps_and_a_device_side_annotation_does_not() -> None:
    linked = linked_of([mark("train", 0, 5, cat="cpu_op"), mark("train", 10, 5, cat="gpu_user_annotation")])
    assert steps(linked, "train").get_column("start_ns").to_list() == [0]


def test_a_trace_without_steps_has_an_empty_table_of_the_schema() -> None:
    table = steps(linked_of([mark("a", 0, 5)]))
    assert table.is_empty()
    assert dict(table.schema) == STEPS.polars_schema()


def test_the_table_has_its_declared_schema() -> None:
    assert dict(steps(linked_of([mark("ProfilerStep#1", 0, 5)])).schema) == STEPS.polars_schema()


def of_moments(windows: list[tuple[str, int, int]], moments: list[int]) -> list[str | None]:
    frame = pl.DataFrame(windows, schema=["step", "start_ns", "end_ns"], orient="row")
    found = step_of_moments(pl.DataFrame({"at": range(len(moments)), "ts_ns": moments}), frame)
    return found.sort("at").get_column("step").to_list()


def test_a_moment_is_in_the_window_around_it() -> None:
    windows = [("a", 10, 20), ("b", 20, 30), ("c", 50, 60)]
    found = of_moments(windows, [9, 10, 19, 20, 29, 30, 55, 60, 99])
    assert found == [None, "a", "a", "b", "b", None, "c", None, None]


def test_of_windows_inside_each_other_the_latest_counts() -> None:
    assert of_moments([("outer", 0, 100), ("inner", 10, 20)], [5, 15]) == ["outer", "inner"]


def test_after_an_inner_window_the_outer_one_counts_again() -> None:
    assert of_moments([("outer", 0, 100), ("inner", 10, 20)], [50, 100]) == ["outer", None]


def test_without_windows_no_moment_has_a_step() -> None:
    frame = pl.DataFrame(schema={"step": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
    found = step_of_moments(pl.DataFrame({"ts_ns": [1, 2]}), frame)
    assert found.get_column("step").to_list() == [None, None]
