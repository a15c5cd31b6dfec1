"""How the cost of something grows with its input: ratios of processor time within one run, no limits in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_Input = TypeVar("_Input")

_ROUNDS = 5
_NOISE_S = 0.005
"""Times below this are mostly start-up cost and the clock's resolution."""


def grows_less(limit: float, work: Callable[[_Input], object], small: _Input, large: _Input) -> bool:
    """Whether the large input takes less than so many times the processor time of the small one.

    Other work of the machine only adds to a time: a ratio below the limit is measured once, another one again.
    """
    work(small)  # Imports and compiled functions are there from now on.
    small_s = large_s = float("inf")
    for _ in range(_ROUNDS):
        small_s, large_s = (
            min(s, _seconds(work, given)) for s, given in ((small_s, small), (large_s, large))
        )
        if large_s < limit * max(small_s, _NOISE_S):
            return True
    return False


def _seconds(work: Callable[[_Input], object], given: _Input) -> float:
    begin = time.process_time()
    work(given)
    return time.process_time() - begin
