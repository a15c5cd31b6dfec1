"""Distributions of statistics: intervals and significance."""

from __future__ import annotations

import math
from functools import cache


def exactly(count: int, trials: int, probability: float) -> float:
    """The probability of `count` successes in `trials`; by logarithms, as factorials of many trials exceed a float."""
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(ways + count * math.log(probability) + (trials - count) * math.log1p(-probability))


def at_least(count: int, trials: int, probability: float) -> float:
    """The probability of at least `count` successes in `trials`: the binomial distribution's upper tail."""
    if count <= 0 or probability >= 1.0:
        return 1.0
    return min(math.fsum(exactly(more, trials, probability) for more in range(count, trials + 1)), 1.0)


CONFIDENCE = 0.95
"""Share of intervals that contain the true value, if steps are independent samples."""
_BISECTIONS = 80
"""Halvings of the search interval: more than a float has digits."""
_MOST_DEGREES = 10_000
"""Sample size from which the quantile differs from the normal distribution's by less than 0.02 %."""


@cache
def student_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| < t) = confidence, for Student's distribution.

    P is the finite series of Abramowitz & Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4; t is found
    by bisection.
    """
    degrees = min(degrees, _MOST_DEGREES)
    low, high = 0.0, 1.0
    while student_within(high, degrees) < confidence:
        high *= 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if student_within(middle, degrees) < confidence else (low, middle)
    return high


def student_within(t: float, degrees: int) -> float:
    """P(|T| < t) for Student's distribution, by the same series."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    is_even = degrees % 2 == 0
    term = math.sin(angle) * (1.0 if is_even else cosine)
    total = 0.0
    for count in range(1 if is_even else 2, degrees, 2):
        total += term
        term *= cosine * cosine * count / (count + 1)
    return total if is_even else 2 / math.pi * (angle + total)
