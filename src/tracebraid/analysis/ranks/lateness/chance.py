"""Could it be chance that a rank is the latest so often?"""

from __future__ import annotations

import math

__all__ = ["at_least", "blocks_for"]


def at_least(count: int, trials: int, probability: float) -> float:
    """The probability of at least `count` successes in `trials`: the binomial distribution's upper tail.

    Args:
        count: successes.
        trials: independent trials.
        probability: of a success in each, above 0.
    """
    if count <= 0 or probability >= 1.0:
        return 1.0
    whole = math.lgamma(trials + 1)
    terms = (
        math.exp(
            whole
            - math.lgamma(k + 1)
            - math.lgamma(trials - k + 1)
            + k * math.log(probability)
            + (trials - k) * math.log1p(-probability)
        )
        for k in range(count, trials + 1)
    )
    return min(math.fsum(terms), 1.0)


def blocks_for(ranks: int, level: float) -> int:
    """How many blocks it takes, all with the same latest rank, to be beyond chance after Bonferroni's correction.

    Args:
        ranks: ranks that may be the latest.
        level: the probability below which chance is ruled out.
    """
    if ranks < 2:
        return 1
    return math.ceil(1 - math.log(level) / math.log(ranks))
