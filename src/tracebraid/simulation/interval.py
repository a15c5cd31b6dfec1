"""Interval of a predicted gain: it holds the real gain in about four of five cases. What widens it, and how much."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.graph import Doubt

_Floats = NDArray[np.float64]

_LOW, _HIGH = 10.0, 90.0
"""Percentiles of the interval."""

NORMAL = 1.2816
"""Standard deviations from the mean of a normal distribution to its 90th percentile."""

_DRAWS = 2_000
"""Draws of steps: the percentiles then vary by some percent of their distance from the mean."""

_BLOCKS = 5
"""Blocks of consecutive steps that a draw consists of: slow times last for several steps, and so do draws."""

RECORDED, UNRECORDED = 0.04, 0.01
"""Standard deviation of the mean step between runs of one program, as a share of it, beyond that of its steps: recorded
steps of one process differ by 2 to 20 % from capture to capture, those without recording by 1 % (the pairs of
`benchmarks/whatif_pairs` that are not held out)."""

_ONE_STEP = 0.04
"""The same where there are fewer than three steps, so that they say nothing: steps of real traces differ by 2 to 4 %
(`docs/what_if.md`)."""


_FEWEST_STEPS = 4
"""Steps below which predictions of one from the others say nothing."""


class StepGains(Struct, frozen=True, eq=False):
    """Times of the job's steps in ns.

    Args:
        before_ns: as measured.
        after_ns: with the changes, and measured residuals.
        usual_gain_ns: gain with the residuals that other steps have.
        even_ns: before the changes, if what they change took as long as it does in other steps.
    """

    before_ns: _Floats
    after_ns: _Floats
    usual_gain_ns: _Floats
    even_ns: _Floats

    @classmethod
    def of(cls, *times_ns: NDArray[np.int64] | _Floats) -> StepGains:
        """Whole or broken times, in the order of the fields."""
        return cls(*(times.astype(np.float64) for times in times_ns))

    @property
    def gain_ns(self) -> _Floats:
        """Gain of each step with measured residuals."""
        return self.before_ns - self.after_ns


class GainInterval(Struct, frozen=True, eq=False):
    """Interval of the mean gain of a step, in ns.

    Args:
        low_ns: low end; at most the predicted gain.
        high_ns: high end; at least the predicted gain.
        doubts: `WHAT_IF_DOUBTS`.
    """

    low_ns: float
    high_ns: float
    doubts: pl.DataFrame


def gain_interval(
    steps: StepGains, error: float, others_ns: Mapping[Doubt, float], runs: float = RECORDED
) -> GainInterval:
    """Compute the interval, and what each doubt contributes.

    Args:
        steps: times of steps.
        error: standard deviation of the gains of such changes, as a share of the gain, before the trace is asked.
        others_ns: standard deviations of other doubts.
        runs: standard deviation of the mean step between runs, as a share of it.
    """
    gain = float(steps.gain_ns.mean())
    drawn = np.percentile(_of_other_runs(steps, runs), [_LOW, _HIGH]) - gain
    spread, lost = error * abs(gain), (1.0 - _carried_over(steps, error)) * abs(gain)
    sides = {
        Doubt.STEPS: (max(-drawn[0], 0.0), max(drawn[1], 0.0)),
        Doubt.RESIDUALS: 2 * (NORMAL * abs(float(steps.usual_gain_ns.mean()) - gain),),
        Doubt.MODEL: (NORMAL * float(np.hypot(spread, lost)), NORMAL * spread),
        **{doubt: 2 * (NORMAL * sd_ns,) for doubt, sd_ns in others_ns.items()},
    }
    if gain < 0:
        sides[Doubt.MODEL] = sides[Doubt.MODEL][::-1]
    low, high = (float(np.linalg.norm([ends[side] for ends in sides.values()])) for side in (0, 1))
    return GainInterval(gain - low, gain + high, _doubts(sides))


def _of_other_runs(steps: StepGains, runs: float) -> _Floats:
    """Gains between two other runs of the program, with the changes and without: means of drawn blocks of steps."""
    count = len(steps.before_ns)
    generator = np.random.default_rng(0)
    mean = float(steps.before_ns.mean())
    if count < 3:
        drawn: _Floats = steps.gain_ns.mean() + generator.normal(0.0, _ONE_STEP * mean, _DRAWS)
        return drawn
    length = max(count // _BLOCKS, 1)
    means = [
        _drawn_means(generator, times, length) for times in (steps.before_ns, steps.after_ns, steps.gain_ns)
    ]
    of_runs = generator.normal(0.0, runs * mean, _DRAWS)
    found: _Floats = means[0] - means[1] - (means[2] - steps.gain_ns.mean()) + of_runs
    return found


def _drawn_means(generator: np.random.Generator, times: _Floats, length: int) -> _Floats:
    """Means of as many steps as there are, drawn in blocks that go on at the first after the last."""
    starts = generator.integers(0, len(times), (_DRAWS, -(-len(times) // length)))
    around = np.concatenate([times, times[: length - 1]]) if length > 1 else times
    sums = np.convolve(around, np.ones(length), "valid")
    means: _Floats = sums[starts].mean(axis=1) / length
    return means


def _carried_over(steps: StepGains, error: float) -> float:
    """Part of a difference of the changed work that becomes one of the step, from 0 to 1.

    A step is predicted from others: by how much it differs from them because its changed work does, and it should
    differ by as much. A part of 0 says that the rest of a step makes up for it: the step waits for something else. What
    the trace says is weighed with `error`.
    """
    predicted = steps.before_ns - steps.even_ns
    predicted = predicted - predicted.mean()
    time = steps.before_ns - steps.before_ns.mean()
    squares = float(predicted @ predicted)
    if error**2 <= 0 or squares <= 0 or len(time) < _FEWEST_STEPS:
        return 1.0
    slope = float(predicted @ time) / squares
    rest = time - slope * predicted
    variance = float(rest @ rest) / (len(time) - 2) / squares
    weight = error**2 / (error**2 + variance)
    # Slow times that all work shares make the part greater than 1: they say nothing about the change.
    return 1.0 - weight * (1.0 - min(max(slope, 0.0), 1.0))


WHAT_IF_DOUBTS = Table(
    "what_if_doubts",
    "One row per reason why the real gain may differ from the predicted, the greatest first.",
    (
        Column("doubt", Kind.TEXT, "the reason (`Doubt`)"),
        Column("half_width_ns", Kind.FLOAT, "half the width of the interval if it were the only reason"),
        Column("share", Kind.FLOAT, "its share: of the sum of squares of all half widths"),
    ),
)


def _doubts(sides: Mapping[Doubt, tuple[float, float]]) -> pl.DataFrame:
    half = {doubt: float(np.mean(ends)) for doubt, ends in sides.items()}
    total = sum(width**2 for width in half.values())
    rows = [
        {"doubt": doubt.value, "half_width_ns": width, "share": width**2 / total if total else 0.0}
        for doubt, width in half.items()
    ]
    table = pl.DataFrame(rows).sort("half_width_ns", "doubt", descending=[True, False])
    return WHAT_IF_DOUBTS.conform(table)
