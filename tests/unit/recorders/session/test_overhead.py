"""What recording costs is told from steady steps alone."""

from __future__ import annotations

from tracebraid.recorders.session.overhead import StepTimes
from tracebraid.recorders.session.schedule import Schedule


def test_only_steady_steps_are_compared() -> None:
    times = StepTimes(Schedule(skip_first=1, wait=2, warmup=1, active=2, repeat=1))
    # first, wait, wait, warm-up, recorded, recorded, after the window, steady, steady
    for step, dur_ns in enumerate((900, 100, 120, 800, 300, 340, 700, 110, 130)):
        times.add(step, dur_ns, recorded=True)
    assert times.summary() == {
        "untraced_steps": 4,
        "untraced_step_median_ns": 115,
        "traced_steps": 2,
        "traced_step_median_ns": 320,
        "traced_to_untraced": 2.783,
    }


def test_the_first_step_of_all_never_counts() -> None:
    times = StepTimes(Schedule(skip_first=0, wait=3))
    times.add(0, 900, recorded=True)
    times.add(1, 100, recorded=True)
    assert times.untraced_ns == [100]


def test_a_window_that_was_given_up_counts_for_neither_side() -> None:
    times = StepTimes(Schedule(skip_first=0, wait=1, warmup=0, active=1))
    for step in range(2):
        times.add(step, 100, recorded=False)
    assert times.summary()["traced_to_untraced"] is None
    assert (times.traced_ns, times.untraced_ns) == ([], [])
