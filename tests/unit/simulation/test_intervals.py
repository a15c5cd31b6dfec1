"""The interval of a predicted gain: it contains the prediction, holds the real gain as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracebraid.model.graph import Doubt
from tracebraid.simulation.interval import UNRECORDED, GainInterval, StepGains, gain_interval

STEPS = 20
MEAN, GAIN = 10e6, 2e6
Floats = NDArray[np.float64]


def steps(spread: float, seed: int = 0, gain: float = GAIN, count: int = STEPS) -> StepGains:
    """Steps of which the changed part, and all else, vary by a share."""
    generator = np.random.default_rng(seed)
    part = gain * (1 + spread * generator.normal(size=count))
    rest = (MEAN - gain) * (1 + spread * generator.normal(size=count))
    return StepGains(rest + part, rest, part, rest + np.median(part))


def width(found: GainInterval) -> float:
    return found.high_ns - found.low_ns


def greatest(found: GainInterval) -> Doubt:
    return Doubt(found.doubts.item(0, "doubt"))


times = st.lists(st.floats(0, 1e9), min_size=1, max_size=30)


@settings(max_examples=50, deadline=None)
@given(before=times, seed=st.integers(0, 99), error=st.floats(0, 2))
def test_an_interval_contains_the_prediction(before: list[float], seed: int, error: float) -> None:
    generator = np.random.default_rng(seed)
    after = np.array(before) * generator.uniform(0, 1.2, len(before))
    given_steps = StepGains(
        np.array(before), after, *(generator.uniform(0, 1, (2, len(before))) * np.array(before))
    )
    found = gain_interval(given_steps, error, {Doubt.CONTENTION: 1e3})
    assert found.low_ns <= given_steps.gain_ns.mean() <= found.high_ns
    shares = found.doubts.get_column("share")
    assert shares.sum() == pytest.approx(1)
    assert shares.is_sorted(descending=True)


def test_the_more_steps_differ_the_wider() -> None:
    widths = [width(gain_interval(steps(spread), 0.0, {}, UNRECORDED)) for spread in (0.0, 0.02, 0.1, 0.3)]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1] / 2


def test_the_more_steps_the_narrower() -> None:
    few, many = (gain_interval(steps(0.2, count=count), 0.01, {}) for count in (6, 200))
    assert width(many) < width(few)


@pytest.mark.parametrize(
    ("others", "doubt"), [({}, Doubt.MODEL), ({Doubt.CONTENTION: GAIN}, Doubt.CONTENTION)]
)
def test_the_greatest_doubt_comes_first(others: dict[Doubt, float], doubt: Doubt) -> None:
    assert greatest(gain_interval(steps(0.0), 0.5, others)) is doubt


def test_steps_that_differ_are_the_greatest_doubt() -> None:
    assert greatest(gain_interval(steps(0.4), 0.05, {}, UNRECORDED)) is Doubt.STEPS


def test_unexplained_time_that_matters_is_the_greatest_doubt() -> None:
    given_steps = steps(0.0)
    other = StepGains(
        given_steps.before_ns, given_steps.after_ns, given_steps.usual_gain_ns / 2, given_steps.even_ns
    )
    assert greatest(gain_interval(other, 0.05, {}, UNRECORDED)) is Doubt.RESIDUALS


def test_the_same_steps_give_the_same_interval() -> None:
    first, second = (gain_interval(steps(0.1), 0.1, {}) for _ in range(2))
    assert (first.low_ns, first.high_ns) == (second.low_ns, second.high_ns)
    assert first.doubts.equals(second.doubts)


def test_a_change_whose_time_the_rest_of_a_step_makes_up_for_may_gain_nothing() -> None:
    """All steps take the same time: what the changed part takes longer, the rest takes less."""
    generator = np.random.default_rng(0)
    part = GAIN * (1 + 0.5 * generator.normal(size=STEPS))
    before = np.full(STEPS, MEAN)
    found = gain_interval(StepGains(before, before - part, part, before - part), 0.3, {}, UNRECORDED)
    assert found.low_ns < 0
    assert part.mean() - found.low_ns > 2 * (found.high_ns - part.mean())


def test_of_few_steps_the_spread_is_that_of_real_traces() -> None:
    one = StepGains(np.array([MEAN]), np.array([MEAN - GAIN]), np.array([GAIN]), np.array([MEAN]))
    assert width(gain_interval(one, 0.0, {}, UNRECORDED)) == pytest.approx(2 * 1.28 * 0.04 * MEAN, rel=0.1)


@pytest.mark.parametrize("spread", [0.05, 0.3])
def test_four_of_five_intervals_hold_what_other_runs_gain(spread: float) -> None:
    """The real gain is that of two other runs; predictions of this kind are off by a tenth."""
    generator = np.random.default_rng(1)
    hits = 0
    for seed in range(300):
        found = gain_interval(steps(spread, seed), 0.1, {}, UNRECORDED)
        before, after = (steps(spread, 1000 + 2 * seed + other).before_ns.mean() for other in (0, 1))
        removed = GAIN * (1 + 0.1 * generator.normal())
        real = before - (after - removed) + MEAN * 0.01 * generator.normal()
        hits += found.low_ns <= real <= found.high_ns
    assert 0.75 <= hits / 300 <= 0.87
