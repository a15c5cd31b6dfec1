"""By how much do two samples differ, and can that be chance?

The test is Mann and Whitney's U (1947), the estimate and its interval are Hodges and Lehmann's (1963): they assume no
distribution, and a few steps that are slow for reasons of their own do not hide a difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALPHA", "Tested", "compare_rows", "holm"]

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

_SIGMAS = 3.0
"""How many standard deviations of a normal distribution the confidence is worth. A gate that compares each commit
raises a false alarm in one of 370 comparisons; at the usual 95 % it would in one of 20."""
ALPHA = math.erfc(_SIGMAS / math.sqrt(2))
"""Probability of a false alarm, 0.27 %: intervals hold with 1 - ALPHA."""

_EXACT_PAIRS = 2500
"""Pairs of steps up to which the distribution of U is computed; beyond it is normal to a part in a thousand."""
_QUANTILES = 50
"""Values of a sample from which the interval of many is computed: its quantiles, evenly spaced."""
_CELLS = 4_000_000
"""Differences of pairs that are held at once: 32 MB."""


@dataclass(frozen=True)
class Tested:
    """Of each row, how the second sample differs from the first.

    Args:
        shift: the median of the differences of all pairs.
        low: lower end of the interval of `shift`; NaN: the samples are too small for any.
        high: its upper end.
        p: probability of a U that is as far off, if both samples are of one distribution.
    """

    shift: _Floats
    low: _Floats
    high: _Floats
    p: _Floats

    def row(self, number: int) -> Tested:
        """One of the rows."""
        rows = slice(number, number + 1)
        return Tested(self.shift[rows], self.low[rows], self.high[rows], self.p[rows])


def compare_rows(a: _Ints, b: _Ints) -> Tested:
    """Compare the rows of two matrices: each row is a sample of the one and a sample of the other.

    Args:
        a: rows x values of the first run.
        b: rows x values of the second.
    """
    first, second = a.shape[1], b.shape[1]
    if not len(a) or not first or not second:
        nothing = np.full(len(a), np.nan)
        return Tested(np.zeros(len(a)), nothing, nothing, np.ones(len(a)))
    tail = _lower_tail(first, second) if first * second <= _EXACT_PAIRS else None
    p = _probabilities(a, b, tail)
    shift, low, high = _shifts(a, b, _rank_of_bound(first, second, tail))
    return Tested(shift, low, high, p)


def holm(p: _Floats) -> _Floats:
    """Probabilities corrected for their number, by Holm (1979): that any is below ALPHA by chance stays below ALPHA.

    It holds however the comparisons depend on each other: ops of one step share its disturbances. Benjamini and
    Hochberg's correction lets a share of what it reports be false, which a gate cannot.
    """
    order = np.argsort(p, kind="stable")
    raised = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(raised) if len(p) else raised
    return corrected


def _probabilities(a: _Ints, b: _Ints, tail: _Floats | None) -> _Floats:
    first, second = a.shape[1], b.shape[1]
    both = np.concatenate([a, b], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    ordered = np.take_along_axis(both, order, axis=1)
    opens = np.ones(ordered.shape, dtype=np.bool_)
    opens[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    group = np.cumsum(opens.ravel()) - 1
    size = np.bincount(group)
    position = np.tile(np.arange(1, first + second + 1), len(a))
    mean_rank = np.bincount(group, weights=position) / size
    ranks = np.empty(both.shape)
    np.put_along_axis(ranks, order, mean_rank[group].reshape(both.shape), axis=1)
    u = ranks[:, first:].sum(axis=1) - second * (second + 1) / 2
    of_row = np.flatnonzero(opens.ravel()) // (first + second)
    ties = np.zeros(len(a))
    np.add.at(ties, of_row, (size**3 - size).astype(np.float64))
    p = _normal(u, ties, first, second)
    if tail is not None:
        least = np.minimum(u, first * second - u)
        exact = np.minimum(1.0, 2 * tail[np.floor(least).astype(np.int64)])
        # No test can do better than count the ways to deal the values to two samples.
        p = np.where(ties == 0, exact, np.maximum(p, np.minimum(1.0, 2 * tail[0])))
    return p


def _normal(u: _Floats, ties: _Floats, first: int, second: int) -> _Floats:
    """The probability by the normal distribution, with corrections for ties and for steps of 1/2."""
    pairs, total = first * second, first + second
    variance = pairs / 12 * ((total + 1) - ties / max(1, total * (total - 1)))
    off = np.maximum(0.0, np.abs(u - pairs / 2) - 0.5)
    z = np.divide(off, np.sqrt(np.maximum(variance, 0)), out=np.zeros_like(off), where=variance > 0)
    return np.array([math.erfc(value / math.sqrt(2)) for value in z.tolist()])


def _lower_tail(first: int, second: int) -> _Floats:
    """P(U <= u) for each u: of all ways to choose the second sample's ranks, those with such a sum."""
    ways = np.zeros((second + 1, first * second + 1))
    ways[0, 0] = 1.0
    total = first + second
    for value in range(total):
        # The value is the rank from 0; as the j-th that is chosen it exceeds j values of the first sample by value - j.
        for chosen in range(min(second, value + 1), 0, -1):
            gain = value - (chosen - 1)
            if gain <= first:
                ways[chosen, gain:] += ways[chosen - 1, : first * second + 1 - gain]
    tail: _Floats = np.cumsum(ways[second] / math.comb(total, second))
    return tail


def _rank_of_bound(first: int, second: int, tail: _Floats | None) -> int:
    """How many of the least differences lie below the interval; -1: all samples are too small for an interval."""
    if tail is not None:
        return int(np.searchsorted(tail, ALPHA / 2, side="right")) - 1
    pairs = first * second
    return math.floor(pairs / 2 - _SIGMAS * math.sqrt(pairs * (first + second + 1) / 12)) - 1


def _shifts(a: _Ints, b: _Ints, rank: int) -> tuple[_Floats, _Floats, _Floats]:
    share = rank / (a.shape[1] * b.shape[1])
    a, b = _thinned(a), _thinned(b)
    pairs = a.shape[1] * b.shape[1]
    rank = rank if rank < 0 else math.floor(share * pairs)
    shift, low, high = (np.full(len(a), np.nan) for _ in range(3))
    rows = max(1, _CELLS // pairs)
    for begin in range(0, len(a), rows):
        part = slice(begin, begin + rows)
        differences = (b[part, None, :] - a[part, :, None]).reshape(-1, pairs)
        wanted = sorted({(pairs - 1) // 2, pairs // 2, max(rank, 0), pairs - 1 - max(rank, 0)})
        differences.partition(wanted, axis=1)
        shift[part] = (differences[:, (pairs - 1) // 2] + differences[:, pairs // 2]) / 2
        if rank >= 0:
            low[part], high[part] = differences[:, rank], differences[:, pairs - 1 - rank]
    return shift, low, high


def _thinned(values: _Ints) -> _Ints:
    if values.shape[1] <= _QUANTILES:
        return values
    ordered = np.sort(values, axis=1)
    wanted = (np.arange(_QUANTILES) * 2 + 1) * values.shape[1] // (2 * _QUANTILES)
    thinned: _Ints = ordered[:, wanted]
    return thinned
