"""Where the steps of a loop lie in a schedule, also where it has to wait."""

from __future__ import annotations

import pytest

from tracebraid.recorders.session.progress import Counted, Progress
from tracebraid.recorders.session.schedule import Action, Schedule

SCHEDULE = Schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)


def recorded(schedule: Schedule, steps: int, busy: frozenset[int] = frozenset()) -> list[int]:
    """The steps that are recorded where a window cannot open in some steps."""
    progress, found, is_open = Progress(schedule, Counted(), 0), [], False
    for step in range(steps):
        assert progress.steps_seen == step
        if progress.action in (Action.WARMUP, Action.RECORD):
            if not is_open and progress.opens_window:
                if step in busy:
                    progress.postpone()
                else:
                    is_open = True
            if is_open and progress.action is Action.RECORD:
                found.append(step)
        closes = progress.closes_window
        progress.end_step(100, recorded=bool(found) and found[-1] == step)
        is_open = is_open and not closes
    return found


def test_each_window_opens_where_the_schedule_has_it() -> None:
    assert recorded(SCHEDULE, 20) == [3, 4, 7, 8]


@pytest.mark.parametrize(
    ("busy", "steps"),
    [({2}, [4, 5, 8, 9]), ({2, 3, 4}, [6, 7, 10, 11]), ({6}, [3, 4, 8, 9]), ({0, 1}, [3, 4, 7, 8])],
)
def test_a_window_that_cannot_open_opens_later_and_so_do_those_behind_it(
    busy: set[int], steps: list[int]
) -> None:
    assert recorded(SCHEDULE, 20, frozenset(busy)) == steps


def test_windows_without_steps_between_them_can_wait_too() -> None:
    schedule = Schedule(skip_first=0, wait=0, warmup=0, active=2, repeat=2)
    assert recorded(schedule, 9, frozenset({0, 3})) == [1, 2, 4, 5]


def test_a_window_that_is_broken_off_opens_again_with_the_next_step() -> None:
    progress = Progress(SCHEDULE, Counted(), 0)
    for _ in range(4):
        progress.end_step(100, recorded=False)
    assert progress.action is Action.RECORD
    progress.postpone()
    progress.end_step(100, recorded=False)
    assert (progress.action, progress.opens_window, progress.is_postponed) == (Action.WARMUP, True, True)
    assert progress.first_recorded == 6


def test_a_step_that_was_postponed_counts_for_no_time() -> None:
    progress = Progress(SCHEDULE, Counted(), 0)
    for _ in range(2):
        progress.end_step(100, recorded=False)
    before = progress.times.summary()
    progress.postpone()
    progress.end_step(900, recorded=False)
    assert progress.times.summary() == before
