"""A clock against another: a robust line through the differences of ends, within what waiting allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.collectives.codes import USUAL_DRIFT_PPM
from tracebraid.model.units import NS_PER_MS

__all__ = ["MOST_DRIFT_PPM", "ClockLine", "Differences", "line_through"]

MOST_DRIFT_PPM = 1000.0
"""No clock of a host drifts as much: oscillators do up to 100, NTP adds up to 500 to correct them."""

_LEAST_FOR_DRIFT = 6
"""Collectives from which on a drift is measured."""

_ERRORS, _ERRORS_OF_FEW = 4.0, 8.0
"""Standard errors between which a drift lies, and beyond which it is taken to be one: `4 (1 + 8 / (n - 2))`, about the
quantile of Student's distribution with n - 2 degrees of freedom beyond which a part of 6e-5 lies."""

_READING_NS = 1_000
"""How exactly a time is read: a device's times are converted to its host's clock to about a microsecond."""

_ROUNDS = 8
_TUKEY = 4.685
"""Of Tukey's biweight, for 95 % efficiency on normal residuals, in standard deviations."""

_MAD_TO_SIGMA = 1.4826
"""Of the median absolute deviation, for normal residuals."""

_PPM = 1e6
_Floats: TypeAlias = NDArray[np.float64]
_Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Differences:
    """What collectives say about a clock against another, in ns.

    Args:
        own: ends on this clock, at which the others are taken.
        apart: the other clock's ends less its own.
        trusted: which of them the line goes through, at least one; the others only set bounds.
        low: the least that is to be added to this clock, NaN: no bound; relative to `base_ns`.
        high: the most.
        base_ns: what `low` and `high` are relative to.
    """

    own: _Ints
    apart: _Ints
    trusted: NDArray[np.bool_]
    low: _Floats
    high: _Floats
    base_ns: int


@dataclass(frozen=True)
class ClockLine:
    """What is to be added to a clock at a time: `offset_ns` at `at_ns`, `drift_ppm` ns more for each ms.

    Args:
        at_ns: a moment on that clock.
        offset_ns: see above.
        low_ns: the least that the offset can be; None: unknown.
        high_ns: the most.
        drift_ppm: see above; 0 where none is measured.
        drift_low_ppm: the least that the drift can be; None: unknown.
        drift_high_ppm: the most.
    """

    at_ns: int
    offset_ns: int
    low_ns: int | None
    high_ns: int | None
    drift_ppm: float = 0.0
    drift_low_ppm: float | None = None
    drift_high_ppm: float | None = None


@dataclass(frozen=True)
class _Drift:
    """A slope, what it may be off, and whether there are enough samples to know."""

    slope: float
    error: float
    known: bool

    @property
    def used(self) -> float:
        """The slope where it is one: not where it may be 0, or is more than clocks drift."""
        return self.slope if self.known and self.error < abs(self.slope) <= MOST_DRIFT_PPM / _PPM else 0.0

    @property
    def free(self) -> float:
        """How far the true one can be from that."""
        return abs(self.slope - self.used) + self.error if self.known else USUAL_DRIFT_PPM / _PPM


def line_through(found: Differences) -> ClockLine:
    """The line that agrees best with the ends, and what waiting allows.

    A median of slopes between the halves, then least squares with Tukey's weights. The bounds hold at any time and
    for any drift within its interval; the offset lies between them.
    """
    own = found.own[found.trusted]
    at = int(own.min()) + int(np.median(own - own.min()))
    time = (own - at).astype(np.float64)
    rest = (found.apart[found.trusted] - found.base_ns).astype(np.float64)
    offset, measured, error = _robust_line(time, rest)
    drift = _Drift(measured, error, known=len(time) >= _LEAST_FOR_DRIFT and error < MOST_DRIFT_PPM / _PPM)
    if not drift.used:
        offset = _robust_line(np.zeros_like(time), rest)[0]
    low, high = _between(found, (found.own - at).astype(np.float64), drift)
    offset = min(max(offset, -np.inf if low is None else low), np.inf if high is None else high)
    return ClockLine(
        at_ns=at,
        offset_ns=found.base_ns + round(offset),
        low_ns=None if low is None else found.base_ns + int(np.floor(low)),
        high_ns=None if high is None else found.base_ns + int(np.ceil(high)),
        drift_ppm=drift.used * _PPM,
        drift_low_ppm=(measured - error) * _PPM if drift.known else None,
        drift_high_ppm=(measured + error) * _PPM if drift.known else None,
    )


def _robust_line(time: _Floats, rest: _Floats) -> tuple[float, float, float]:
    """Offset at 0, slope, and what the slope may be off."""
    slope = _slope_between_halves(time, rest)
    offset = float(np.median(rest - slope * time))
    error, errors = np.inf, _ERRORS * (1 + _ERRORS_OF_FEW / max(len(time) - 2, 1))
    for _ in range(_ROUNDS):
        left = rest - offset - slope * time
        sigma = max(_MAD_TO_SIGMA * float(np.median(np.abs(left))), 1.0)
        weights = np.square(np.clip(1 - np.square(left / (_TUKEY * sigma)), 0, None))
        total = float(weights.sum())
        if not total:
            break
        mean_time, mean_rest = (float((weights * value).sum()) / total for value in (time, rest))
        spread = float((weights * np.square(time - mean_time)).sum())
        if spread:
            slope = float((weights * (time - mean_time) * (rest - mean_rest)).sum()) / spread
            error = errors * sigma / float(np.sqrt(spread))
        offset = mean_rest - slope * mean_time
    return offset, slope, error


def _slope_between_halves(time: _Floats, rest: _Floats) -> float:
    """The median slope between each sample and that which is half of all samples later."""
    order = np.argsort(time, kind="stable")
    half = len(time) // 2
    run = time[order[half:]] - time[order[: len(time) - half]]
    rise = rest[order[half:]] - rest[order[: len(time) - half]]
    later = run >= NS_PER_MS
    return float(np.median(rise[later] / run[later])) if later.any() else 0.0


def _between(found: Differences, time: _Floats, drift: _Drift) -> tuple[float | None, float | None]:
    """What the offset at time 0 lies between; None: no bound.

    Where bounds contradict each other, as by a pair that was matched wrongly, as few of the tightest as possible are
    left out on both ends; where they do so by half, all are.
    """
    rise, loose = drift.used * time, np.abs(time) * drift.free + _READING_NS
    lows = np.sort((found.low - rise - loose)[~np.isnan(found.low)])[::-1]
    highs = np.sort((found.high - rise + loose)[~np.isnan(found.high)])
    if not len(lows) or not len(highs):
        return (float(lows[0]) if len(lows) else None), (float(highs[0]) if len(highs) else None)
    both = min(len(lows), len(highs))
    agree = np.flatnonzero(lows[:both] <= highs[:both])
    if not len(agree) or agree[0] > both // 2:
        return None, None
    return float(lows[agree[0]]), float(highs[agree[0]])
