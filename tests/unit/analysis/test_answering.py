"""Which rows of an answer are doubtful."""

from __future__ import annotations

import polars as pl

from tests.builders import call
from tests.unit.analysis.validity.training import is_device, linked, number_of, steps, without
from tracebraid.analysis.answering import doubtful_steps
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.model.linked_trace import LinkedTrace


def marked(answer: pl.DataFrame) -> dict[str | None, bool]:
    """Whether the rows of each step are doubtful; all of a step alike."""
    rows = answer.group_by("step").agg(pl.col("doubtful").unique()).rows()
    assert all(len(values) == 1 for _, values in rows)
    return {step: values[0] for step, values in rows}


def with_doubt_in_a_step() -> LinkedTrace:
    return linked(without(steps(4), lambda e: is_device(e) and number_of(e) == 2 and e["ts"] > 2100))


def test_a_sound_trace_has_no_doubtful_row() -> None:
    for answer in (breakdown(linked(steps(3))), kernels(linked(steps(3)), per_step=True)):
        assert set(marked(answer).values()) == {False}


def test_rows_of_a_doubtful_step_and_of_the_whole_trace_are_doubtful() -> None:
    trace = with_doubt_in_a_step()
    named: dict[str | None, bool] = {f"ProfilerStep#{number}": number == 2 for number in range(4)}
    assert marked(breakdown(trace)) == named | {None: True}
    assert marked(kernels(trace, per_step=True)) == named
    assert marked(kernels(trace)) == {None: True}


def test_a_doubt_about_what_lies_in_no_step_leaves_the_steps_sound() -> None:
    trace = linked([*steps(3), call("cudaLaunchKernel", 5000, 5, 9999)])
    assert doubtful_steps(trace).to_list() == [None]
    named: dict[str | None, bool] = {f"ProfilerStep#{number}": False for number in range(3)}
    assert marked(breakdown(trace)) == named | {None: True}


def test_steps_by_another_annotation_have_their_own_doubts() -> None:
    assert doubtful_steps(with_doubt_in_a_step(), "iteration").to_list() == [None]
