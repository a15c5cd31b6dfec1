"""Could it be chance that a rank is the latest so often?"""

from __future__ import annotations

import math

__all__ = ["blocks_for"]


def blocks_for(ranks: int, level: float) -> int:
    """How many blocks it takes, all with the same latest rank, to be beyond chance after Bonferroni's correction.

    Args:
        ranks: ranks that may be the latest.
        level: the probability below which chance is ruled out.
    """
    if ranks < 2:
        return 1
    return math.ceil(1 - math.log(level) / math.log(ranks))
