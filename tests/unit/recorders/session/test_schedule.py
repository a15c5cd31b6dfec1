"""The schedule is that of `torch.profiler.schedule`, and always records something."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.errors import ArgumentError
from tracebraid.recorders.session.schedule import Action, Schedule

COUNTS = st.integers(0, 4)


@settings(deadline=None)  # the first call imports torch
@given(COUNTS, COUNTS, COUNTS, st.integers(1, 4), st.integers(1, 3))
def test_it_records_the_steps_that_pytorchs_does(
    skip_first: int, wait: int, warmup: int, active: int, repeat: int
) -> None:
    profiler = pytest.importorskip("torch").profiler
    words = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = profiler.schedule(**words)
    ours = Schedule(**words)
    same = {
        profiler.ProfilerAction.NONE: {Action.SKIP, Action.WAIT},
        profiler.ProfilerAction.WARMUP: {Action.WARMUP},
        profiler.ProfilerAction.RECORD: {Action.RECORD},
        profiler.ProfilerAction.RECORD_AND_SAVE: {Action.RECORD},
    }
    steps = range(skip_first + repeat * (wait + warmup + active) + 3)
    assert all(ours.action(step) in same[theirs(step)] for step in steps)
    recorded = [step for step in steps if ours.action(step) is Action.RECORD]
    assert len(recorded) == active * repeat
    assert (ours.first_recorded, ours.steps_needed) == (recorded[0], recorded[active - 1] + 1)
    assert [ours.window(step) for step in recorded] == [n for n in range(repeat) for _ in range(active)]


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("active", 0, "active is 0, and must be 1 or more: nothing would ever be recorded"),
        ("repeat", 0, "repeat is 0, and must be 1 or more: nothing would ever be recorded"),
        ("wait", -1, "wait is -1, and must be 0 or more"),
        ("warmup", 1.5, "warmup is a number of steps, not 1.5"),
        ("skip_first", "3", "skip_first is a number of steps, not '3'"),
        ("active", True, "active is a number of steps, not True"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(word: str, value: object, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Schedule(**{word: value})  # type: ignore[arg-type]
