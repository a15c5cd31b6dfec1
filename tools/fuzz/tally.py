"""Counts what became of the calls of a run."""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.fuzz.model import Asked, Failure, FailureKind, Outcome, Seed

__all__ = ["CallCount", "Found", "Tally"]

_SLOWEST = 10
"""So many of the slowest calls are listed."""
_SEEDS = 20
"""So many seeds of a failure are listed, in case that they have several causes."""


@dataclass
class CallCount:
    """How often a call was asked, how it ended, and how long it took in all."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    took_s: float = 0.0


@dataclass
class Found:
    """The failures of one kind in one place: the first, how many there were, and the first seeds."""

    first: Failure
    count: int = 0
    seeds: list[Seed] = field(default_factory=list)


class Tally:
    """What a run has asked so far; several threads may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.mutants: Counter[str] = Counter()
        self.calls: dict[str, CallCount] = {}
        self.found: dict[tuple[FailureKind, str], Found] = {}
        self._slowest: list[tuple[float, str, str]] = []

    def add(self, seed: Seed, asked: Sequence[Asked]) -> None:
        """Count a mutant."""
        with self._lock:
            self.mutants[seed.format] += 1
            for one in asked:
                counted = self.calls.setdefault(one.call, CallCount())
                counted.outcomes[one.outcome] += 1
                counted.took_s += one.took_s
                heapq.heappush(self._slowest, (one.took_s, one.call, str(seed)))
                if len(self._slowest) > _SLOWEST:
                    heapq.heappop(self._slowest)
                if one.failure is not None:
                    self._add_failure(seed, one.failure)

    def _add_failure(self, seed: Seed, failure: Failure) -> None:
        found = self.found.setdefault(failure.identity, Found(failure))
        found.count += 1
        if len(found.seeds) < _SEEDS and seed not in found.seeds:
            found.seeds.append(seed)

    @property
    def slowest(self) -> list[tuple[float, str, str]]:
        """The slowest calls, slowest first: seconds, call, seed."""
        return sorted(self._slowest, reverse=True)

    @property
    def failures(self) -> int:
        """How many calls failed."""
        return sum(found.count for found in self.found.values())
