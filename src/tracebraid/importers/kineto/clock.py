"""Kineto's decimal microseconds as exact int64 nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BASE_LIMIT_NS",
    "DURATION_LIMIT_US",
    "EXACT_BELOW_US",
    "LIMIT_US",
    "after_base",
    "exact_ns",
    "needs_decimal",
    "to_ns",
]

EXACT_BELOW_US = 2.0**43
"""Below it, float64 holds microseconds with three decimals closely enough to round to the right nanosecond:
its steps are at most 2**-10 µs, so that it is off by less than half a nanosecond."""

LIMIT_US = 4e15
"""Times beyond it (the year 2096, on the unix clock) are treated as damage: their nanoseconds stay below
`BASE_LIMIT_NS`."""

BASE_LIMIT_NS = 2**62
"""All starts and ends of events lie before it (the year 2116, on the unix clock), so that the difference of any two
fits int64, and questions may use it as a moment that never comes. Base times from it on are treated as damage."""

DURATION_LIMIT_US = 1e13
"""Longer durations (115 days) are treated as damage: the sum of 900 of them fits int64."""


def to_ns(us: NDArray[np.float64]) -> NDArray[np.int64]:
    """Microseconds to nanoseconds, rounded to the nearest.

    The whole part and the fraction are scaled apart: `us * 1000` would round the product of a large float.
    Exact for three decimals below `EXACT_BELOW_US`, and for whole microseconds below 2**53.
    """
    whole = np.floor(us)
    fraction = np.rint((us - whole) * 1000.0)
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)


def after_base(
    ts_ns: NDArray[np.int64], dur_ns: NDArray[np.int64] | int, base_ns: int
) -> tuple[NDArray[np.int64], int]:
    """Times relative to a base as moments, and how many end behind `BASE_LIMIT_NS` so: these stay as they are.

    Args:
        ts_ns: below `LIMIT_US`.
        dur_ns: below `DURATION_LIMIT_US`.
        base_ns: the base, 0 up to `BASE_LIMIT_NS`.
    """
    too_late = ts_ns + dur_ns >= BASE_LIMIT_NS - base_ns
    return ts_ns + np.where(too_late, 0, base_ns), int(too_late.sum())


def needs_decimal(us: Sequence[float]) -> bool:
    """Whether some time has a fraction and is too large for float64 to keep its nanoseconds: it is parsed as decimal.

    Args:
        us: times in µs as decoded: `int` where the text has no fraction, `float` where it has one.
    """
    if float not in set(map(type, us)):
        return False
    large = np.flatnonzero(np.abs(np.asarray(us, dtype=np.float64)) >= EXACT_BELOW_US)
    return any(type(us[i]) is float for i in large.tolist())


def exact_ns(us: list[Decimal]) -> NDArray[np.int64]:
    """Microseconds read as decimal text to nanoseconds, rounded half to even."""
    return np.array([int((value * 1000).to_integral_value()) for value in us], dtype=np.int64)
