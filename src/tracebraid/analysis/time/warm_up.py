"""Which steps are warm-up: the first ones, as long as they are slower than the rest?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["warm_up"]

_STEPS = 3
"""Steps, at least: two that differ do not show which of them is usual."""

_DEVIATIONS = 5.0
"""Robust standard deviations above the median of the rest from which on a step is slower than the rest. 3 is usual
for single outliers (Leys et al. 2013, "Detecting outliers"); the few steps of a trace call for more."""
_SHARE = 0.2
"""Share of that median by which it is slower, at least, however little the rest deviate."""
_NORMAL = 1.4826
"""Standard deviations in a median absolute deviation, of a normal distribution."""


def warm_up(spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each step is warm-up.

    The rest is the later half of the steps (of an odd number with the middle one), with median m and median absolute
    deviation d. The steps before it are warm-up up to the first that takes at most m + max(5 * 1.4826 d, 0.2 m).

    Args:
        spans: lengths of the steps in the order of their starts, in ns.
    """
    found = np.zeros(len(spans), dtype=np.bool_)
    if len(spans) < _STEPS:
        return found
    first = len(spans) // 2
    rest = spans[first:]
    median = float(np.median(rest))
    deviation = _NORMAL * float(np.median(np.abs(rest - median)))
    slow = spans[:first] > median + max(_DEVIATIONS * deviation, _SHARE * median)
    found[:first] = np.logical_and.accumulate(slow)
    return found
