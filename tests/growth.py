"""How the cost of something grows with its input: ratios of processor time within one run, no limits in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["growth"]

_Input = TypeVar("_Input")

_ROUNDS = 3
_NOISE_S = 0.005
"""Times below this are mostly start-up cost and the clock's resolution."""


def growth(work: Callable[[_Input], object], small: _Input, large: _Input) -> float:
    """How many times the processor time of the small input the large one takes, the best of three rounds each."""
    return _seconds(work, large) / max(_seconds(work, small), _NOISE_S)


def _seconds(work: Callable[[_Input], object], given: _Input) -> float:
    rounds = []
    for _ in range(_ROUNDS):
        begin = time.process_time()
        work(given)
        rounds.append(time.process_time() - begin)
    return min(rounds)
