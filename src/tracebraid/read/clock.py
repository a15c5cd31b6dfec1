"""Kineto's decimal microseconds as exact int64 nanoseconds."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACT_BELOW_US", "LIMIT_US", "exact_ns", "needs_decimal", "to_ns"]

EXACT_BELOW_US = 2.0**43
"""Below it, float64 holds microseconds with three decimals closely enough to round to the right nanosecond:
its steps are at most 2**-10 µs, so that it is off by less than half a nanosecond."""

LIMIT_US = 4e15
"""Times beyond it (the year 2096, on the unix clock) are taken for damage: their nanoseconds, added to a base
time, could leave int64."""


def to_ns(us: NDArray[np.float64]) -> NDArray[np.int64]:
    """Microseconds to nanoseconds, rounded to the nearest.

    The whole part and the fraction are scaled apart: `us * 1000` would round the product of a large float.
    Exact for three decimals below `EXACT_BELOW_US`, and for whole microseconds below 2**53.
    """
    whole = np.floor(us)
    fraction = np.rint((us - whole) * 1000.0)
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)


def needs_decimal(us: NDArray[np.float64]) -> bool:
    """Whether some time is both too large for float64 and no whole number: then it must be read as decimal text."""
    large = np.abs(us) >= EXACT_BELOW_US
    return bool(large.any() and (us[large] != np.floor(us[large])).any())


def exact_ns(us: list[Decimal]) -> NDArray[np.int64]:
    """Microseconds read as decimal text to nanoseconds, rounded half to even."""
    return np.array([int((value * 1000).to_integral_value()) for value in us], dtype=np.int64)
