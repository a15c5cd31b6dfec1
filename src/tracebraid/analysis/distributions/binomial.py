"""How probable is a number of successes in independent trials?"""

from __future__ import annotations

import math

__all__ = ["at_least", "exactly"]


def exactly(count: int, trials: int, probability: float) -> float:
    """The probability of `count` successes in `trials`; by logarithms, as factorials of many trials exceed a float.

    Args:
        count: successes, 0 to `trials`.
        trials: independent trials.
        probability: of a success in each, between 0 and 1.
    """
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(ways + count * math.log(probability) + (trials - count) * math.log1p(-probability))


def at_least(count: int, trials: int, probability: float) -> float:
    """The probability of at least `count` successes in `trials`: the binomial distribution's upper tail.

    Args:
        count: successes.
        trials: independent trials.
        probability: of a success in each, above 0.
    """
    if count <= 0 or probability >= 1.0:
        return 1.0
    return min(math.fsum(exactly(more, trials, probability) for more in range(count, trials + 1)), 1.0)
