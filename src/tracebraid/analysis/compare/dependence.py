"""Do successive steps resemble each other, and how many independent ones are they worth?

Machines warm up, clocks step down, neighbours come and go: then 20 steps say less than 20 independent samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.compare.mean_ranks import mean_ranks

__all__ = ["Dependence", "autocorrelations", "dependence"]

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

_SHOWS = 2.6
"""Standard deviations above what independent steps have, from which on an autocorrelation is believed: in one of 100
rows of independent steps, by either run or both. Widening for less costs power in every comparison, for steps that are
independent."""
_LEAST_STEPS = 10
"""Steps of a run from which on its autocorrelation says anything."""
_HIGHEST = 0.95
"""Autocorrelations above count as this: a step is worth 1/39."""


@dataclass(frozen=True)
class Dependence:
    """What steps that depend on each other do to each row.

    Args:
        inflation: by how much the variance of a difference of two runs is larger; 1: steps are independent.
        effective: number of independent steps that those of both runs are worth.
        within: by how much a run differs from itself: its second half from its first; 0: steps are independent.
    """

    inflation: _Floats
    effective: _Floats
    within: _Floats


def dependence(a: _Ints, b: _Ints) -> Dependence:
    """By the lag-1 autocorrelation r of each run: n steps are worth n (1 - r) / (1 + r), Bayley and Hammersley (1946).

    Args:
        a: rows x steps of the first run, in the order of time.
        b: the same of the second.
    """
    counts = [values.shape[1] for values in (a, b)]
    found = [autocorrelations(values) for values in (a, b)]
    known = [count if count >= _LEAST_STEPS else 0 for count in counts]
    inflation = np.ones(len(a))
    if not any(known):
        return Dependence(inflation, np.full(len(a), float(sum(counts))), np.zeros(len(a)))
    together = (found[0] * known[0] + found[1] * known[1]) / sum(known)
    shows = _is_shown(together, sum(known))
    for r, count in zip(found, known, strict=True):
        shows |= _is_shown(r, count)
    each = [np.where(shows, _inflation(r, n), 1.0) for r, n in zip(found, known, strict=True)]
    weights = [1 / count for count in counts]
    inflation = sum(v * weight for v, weight in zip(each, weights, strict=True)) / sum(weights)
    effective = sum(count / v for v, count in zip(each, counts, strict=True))
    within = np.maximum(*(_between_halves(values) for values in (a, b)))
    return Dependence(np.asarray(inflation), np.asarray(effective), np.where(shows, within, 0.0))


def autocorrelations(values: _Ints) -> _Floats:
    """That of successive values of each row, by their ranks: single slow steps neither make nor hide it; else 0."""
    ranks, _ = mean_ranks(values)
    ranks = ranks - (values.shape[1] + 1) / 2
    whole = (ranks * ranks).sum(axis=1)
    shared = (ranks[:, 1:] * ranks[:, :-1]).sum(axis=1)
    found: _Floats = np.divide(shared, whole, out=np.zeros(len(values)), where=whole > 0)
    return found


def _between_halves(values: _Ints) -> _Floats:
    half = values.shape[1] // 2
    if not half:
        return np.zeros(len(values))
    found: _Floats = np.abs(np.median(values[:, -half:], axis=1) - np.median(values[:, :half], axis=1))
    return found


def _is_shown(r: _Floats, count: int) -> NDArray[np.bool_]:
    """Independent steps have an autocorrelation of -1/n on average, with a standard deviation of 1 / sqrt(n)."""
    if not count:
        return np.zeros(len(r), dtype=np.bool_)
    found: NDArray[np.bool_] = r > _SHOWS / np.sqrt(count) - 1 / count
    return found


def _inflation(r: _Floats, count: int) -> _Floats:
    """(1 + r) / (1 - r), of the r without the bias of short samples: -(1 + 3 r) / n, Kendall (1954)."""
    if not count:
        return np.ones(len(r))
    true = np.clip((r + 1 / count) / (1 - 3 / count), 0.0, _HIGHEST)
    found: _Floats = (1 + true) / (1 - true)
    return found
