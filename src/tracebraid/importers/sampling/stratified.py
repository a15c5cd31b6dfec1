"""A sample of ranks in which each stratum has its share: the first and the last rank are always in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.sampling.strata import Strata

__all__ = ["stratified"]

_UNIT = 1 << 32
"""Weights are whole multiples of 1 / this, so that sums are exact and ties are ties on every machine."""

_OF_SPREAD = 1 << 8
"""Blocks of consecutive ranks count this part of what is known: they spread the sample where all else is equal."""
_ROUNDS = 4
"""So often each rank of a sample is offered for exchange; in our tests the third round changes nothing."""


@dataclass(frozen=True, eq=False)
class _Division:
    """A division of the ranks, and how many of each stratum are in the sample so far.

    Args:
        codes: the stratum of each rank.
        weights: what another rank of a stratum adds to its ranks' scores: the inverse of its share of the sample.
        taken: ranks of each stratum in the sample.
    """

    codes: NDArray[np.int64]
    weights: NDArray[np.int64]
    taken: NDArray[np.int64]


def stratified(divisions: Sequence[Strata], ranks: int, size: int) -> list[int]:
    """The positions of the ranks in a sample, in order.

    The first division rules: of each of its strata the sample has its proportional share, rounded up or down. Among
    the ranks that this leaves, the next is always the one whose strata, of all divisions, are represented least: the
    one that adds least to the sum of (taken - share)² / share, Pearson's chi-squared. Then ranks are exchanged as long
    as that makes the sum less. Equal ranks are taken in their order, so that the same ranks give the same sample. Only
    the first and last rank may exceed the share of their stratum.

    Args:
        divisions: of the ranks; none: the sample is evenly spread.
        ranks: how many there are.
        size: how many are wanted; at least 1.
    """
    if size >= ranks:
        return list(range(ranks))
    ruling = divisions[0].codes if divisions else np.zeros(ranks, dtype=np.int64)
    spread = np.arange(ranks, dtype=np.int64) * size // ranks
    known = [_division(codes, size) for codes in (ruling, *_codes(divisions[1:]))]
    sample = _Sample([*known, _division(spread, size, _OF_SPREAD)], ranks)
    for position in dict.fromkeys((0, ranks - 1)[:size]):
        sample.take(position)
    shares = np.bincount(ruling) * size
    least, most = shares // ranks, -(-shares // ranks)
    for bound in (least, most):
        while sample.taken < size and sample.take_best(bound):
            pass
    for _ in range(_ROUNDS):
        exchanged = [sample.exchange(position, least, most) for position in sample.inner()]
        if not any(exchanged):
            break
    return [int(position) for position in np.flatnonzero(sample.is_in)]


class _Sample:
    """The ranks taken so far, and the score of each: how well its strata are represented already."""

    def __init__(self, divisions: list[_Division], ranks: int) -> None:
        self._divisions = divisions
        self.is_in = np.zeros(ranks, dtype=np.bool_)
        self.taken = 0
        self._scores = np.zeros(ranks, dtype=np.int64)
        for division in divisions:
            self._scores += division.weights[division.codes] // 2

    def take(self, position: int) -> None:
        """Take a rank into the sample."""
        self._change(position, 1)

    def inner(self) -> list[int]:
        """The ranks of the sample but the first and the last."""
        return [int(position) for position in np.flatnonzero(self.is_in)[1:-1]]

    def take_best(self, most: NDArray[np.int64]) -> bool:
        """Take the rank with the least score, of strata of the ruling division that have fewer than so many.

        Returns:
            Whether there was one.
        """
        ruling = self._divisions[0]
        best = self._best((ruling.taken < most)[ruling.codes])
        if best is None:
            return False
        self.take(best)
        return True

    def exchange(self, position: int, least: NDArray[np.int64], most: NDArray[np.int64]) -> bool:
        """Exchange a rank of the sample for one with a lower score, where the ruling division's bounds allow it.

        Returns:
            Whether there was one.
        """
        ruling = self._divisions[0]
        own = ruling.codes[position]
        self._change(position, -1)
        may = ruling.codes == own
        if ruling.taken[own] >= least[own]:
            may |= (ruling.taken < most)[ruling.codes]
        best = self._best(may)
        better = best is not None and self._scores[best] < self._scores[position]
        self.take(best if best is not None and better else position)
        return better

    def _best(self, may: NDArray[np.bool_]) -> int | None:
        """The first of the ranks with the least score that are not in the sample; None where there is none."""
        free = may & ~self.is_in
        return int(np.where(free, self._scores, np.iinfo(np.int64).max).argmin()) if free.any() else None

    def _change(self, position: int, by: int) -> None:
        self.is_in[position] = by > 0
        self.taken += by
        for division in self._divisions:
            stratum = division.codes[position]
            division.taken[stratum] += by
            self._scores[division.codes == stratum] += by * division.weights[stratum]


def _division(codes: NDArray[np.int64], size: int, divisor: int = 1) -> _Division:
    sizes = np.bincount(codes)
    weights = _UNIT * len(codes) // (size * sizes) // divisor
    return _Division(codes, weights, np.zeros(len(sizes), dtype=np.int64))


def _codes(divisions: Sequence[Strata]) -> list[NDArray[np.int64]]:
    return [strata.codes for strata in divisions]
