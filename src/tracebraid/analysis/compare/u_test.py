"""Estimate the difference of two samples, with an interval and the probability that it is chance.

The test is Mann and Whitney's U (1947), the estimate and its interval are Hodges and Lehmann's (1963): they assume no
distribution, and a few steps that are slow for reasons of their own do not hide a difference. Where successive steps
resemble each other, both are those of the fewer independent steps that they are worth (see `dependence`).

Steps are samples of one capture, and do not show how much captures of one program differ. Where a run has several
captures, these are the sample, each with its median (see `captures.welch`).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.compare.captures import spread, welch
from tracebraid.analysis.compare.profiles import RunProfile
from tracebraid.analysis.distributions import student_quantile, student_within
from tracebraid.model.answers.job import DIFF_STEPS
from tracebraid.model.questions import CAPTURES_ALPHA

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


def mean_ranks(values: _Ints) -> tuple[_Floats, _Floats]:
    """Ranks of the values of each row, from 1.

    And for each row the sum of size^3 - size over groups of equal values.
    """
    rows, width = values.shape
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    opens = np.ones(ordered.shape, dtype=np.bool_)
    opens[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    group = np.cumsum(opens.ravel()) - 1
    size = np.bincount(group)
    position = np.tile(np.arange(1, width + 1), rows)
    mean_rank = np.bincount(group, weights=position) / size
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, mean_rank[group].reshape(values.shape), axis=1)
    ties = np.zeros(rows)
    np.add.at(ties, np.flatnonzero(opens.ravel()) // width, (size**3 - size).astype(np.float64))
    return ranks, ties


_SHOWS = 2.6
"""Standard deviations above what independent steps have, from which on an autocorrelation is believed: in one of 100
rows of independent steps, by either run or both. Widening for less costs power in every comparison, for steps that are
independent."""
_LEAST_STEPS = 10
"""Minimum steps of a run for a meaningful autocorrelation."""
_HIGHEST = 0.95
"""Autocorrelations above count as this: a step is worth 1/39."""


class Dependence(Struct, frozen=True):
    """Effect of dependent steps on each row.

    Args:
        inflation: by how much the variance of a difference of two runs is larger; 1: steps are independent.
        effective: effective number of independent steps of both runs.
        within: by how much a run differs from itself: its second half from its first; 0: steps are independent.
    """

    inflation: _Floats
    effective: _Floats
    within: _Floats


def dependence(a: _Ints, b: _Ints) -> Dependence:
    """Effective sample sizes by the lag-1 autocorrelation r: n (1 - r) / (1 + r) (Bayley, Hammersley, 1946)."""
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
    """Rank autocorrelation of successive values of each row, robust to single slow steps; else 0."""
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


_SIGMAS = 3.0
"""Standard deviations of a normal distribution that correspond to the confidence."""
ALPHA = math.erfc(_SIGMAS / math.sqrt(2))
"""Probability of a false alarm, 0.27 %: intervals hold with 1 - ALPHA.

Of 200 comparisons of one program, more than 2 are false alarms with a probability of 2 % at this level, 7 % at 0.5 %,
22 % at 0.8 % and 30 % at 1 % (binomial, with the exact level of U for 20 steps a run). The price is power where noise
is high: docs/diff.md has the figures."""
_LEAST_P = 1e-300
"""Probabilities below count as this."""

_EXACT_PAIRS = 2500
"""Pairs of steps up to which the distribution of U is computed; beyond it is normal to a part in a thousand."""
_QUANTILES = 50
"""Number of evenly spaced quantiles that represent a larger sample."""
_CELLS = 4_000_000
"""Differences of pairs that are held at once: 32 MB."""


class Tested(Struct, frozen=True):
    """Difference of the second sample from the first, by row.

    Args:
        shift: the median of the differences of all pairs; of captures the difference of means.
        low: lower end of the interval of `shift`; NaN: the samples are too small for any.
        high: its upper end.
        p: probability of samples that are as far off, if both are of one distribution; NaN: of too few captures.
        effective: number of independent steps that both samples are worth; NaN: captures are the sample.
    """

    shift: _Floats
    low: _Floats
    high: _Floats
    p: _Floats
    effective: _Floats

    def row(self, number: int) -> Tested:
        """One of the rows."""
        rows = slice(number, number + 1)
        return Tested(self.shift[rows], self.low[rows], self.high[rows], self.p[rows], self.effective[rows])


def compare_rows(a: _Ints, b: _Ints) -> Tested:
    """Compare the rows of two matrices: each row is a sample of the one and a sample of the other."""
    first, second = a.shape[1], b.shape[1]
    if not len(a) or not first or not second:
        nothing = np.full(len(a), np.nan)
        return Tested(np.zeros(len(a)), nothing, nothing, np.ones(len(a)), np.full(len(a), first + second))
    tail = _lower_tail(first, second) if first * second <= _EXACT_PAIRS else None
    depends = dependence(a, b)
    sigmas = _sigmas(depends)
    of_sigmas = {value: _rank_of_bound(first, second, tail, value) for value in set(sigmas.tolist())}
    bounds = np.array([of_sigmas[value] for value in sigmas.tolist()], dtype=np.int64)
    shift, low, high = _shifts(a, b, bounds)
    # What a run differs from itself is no difference of two runs.
    nearer = np.rint(np.sign(shift) * np.minimum(np.abs(shift), depends.within)).astype(np.int64)
    p = _raised(_probabilities(a, b - nearer[:, None], tail), depends)
    return Tested(shift, low - depends.within, high + depends.within, p, depends.effective)


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


def _sigmas(depends: Dependence) -> _Floats:
    """Standard deviations by which U must deviate.

    Where steps depend on each other, U varies by sqrt(inflation) more, and of few effective steps this is known badly:
    Student's distribution takes the place of the normal one.
    """
    sigmas = np.full(len(depends.inflation), _SIGMAS)
    for row in np.flatnonzero(depends.inflation > 1).tolist():
        quantile = student_quantile(_degrees(depends, row), 1 - ALPHA)
        sigmas[row] = math.sqrt(depends.inflation[row]) * quantile
    return sigmas


def _raised(p: _Floats, depends: Dependence) -> _Floats:
    """The probabilities, by the same distributions as `_sigmas`."""
    for row in np.flatnonzero(depends.inflation > 1).tolist():
        off = -NormalDist().inv_cdf(max(_LEAST_P, p[row] / 2)) / math.sqrt(depends.inflation[row])
        p[row] = max(p[row], 1 - student_within(off, _degrees(depends, row)))
    return p


def _degrees(depends: Dependence, row: int) -> int:
    return max(1, int(depends.effective[row]) - 2)


def _probabilities(a: _Ints, b: _Ints, tail: _Floats | None) -> _Floats:
    first, second = a.shape[1], b.shape[1]
    ranks, ties = mean_ranks(np.concatenate([a, b], axis=1))
    u = ranks[:, first:].sum(axis=1) - second * (second + 1) / 2
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


def _rank_of_bound(first: int, second: int, tail: _Floats | None, sigmas: float) -> int:
    """Return the number of smallest differences below the interval; -1: the samples are too small for an interval."""
    if tail is not None:
        half = ALPHA / 2 if sigmas == _SIGMAS else math.erfc(sigmas / math.sqrt(2)) / 2
        return int(np.searchsorted(tail, half, side="right")) - 1
    pairs = first * second
    return max(-1, math.floor(pairs / 2 - sigmas * math.sqrt(pairs * (first + second + 1) / 12)) - 1)


def _shifts(a: _Ints, b: _Ints, bounds: _Ints) -> tuple[_Floats, _Floats, _Floats]:
    before = a.shape[1] * b.shape[1]
    a, b = _thinned(a), _thinned(b)
    pairs = a.shape[1] * b.shape[1]
    known = bounds >= 0
    bounds = np.maximum(bounds, 0) * pairs // before
    shift, low, high = (np.full(len(a), np.nan) for _ in range(3))
    rows = max(1, _CELLS // pairs)
    for begin in range(0, len(a), rows):
        part = slice(begin, begin + rows)
        differences = (b[part, None, :] - a[part, :, None]).reshape(-1, pairs)
        at = bounds[part, None]
        wanted = np.unique(
            np.concatenate([at.ravel(), pairs - 1 - at.ravel(), [(pairs - 1) // 2, pairs // 2]])
        )
        differences.partition(wanted, axis=1)
        shift[part] = (differences[:, (pairs - 1) // 2] + differences[:, pairs // 2]) / 2
        low[part] = np.take_along_axis(differences, at, axis=1)[:, 0]
        high[part] = np.take_along_axis(differences, pairs - 1 - at, axis=1)[:, 0]
    return shift, np.where(known, low, np.nan), np.where(known, high, np.nan)


def _thinned(values: _Ints) -> _Ints:
    if values.shape[1] <= _QUANTILES:
        return values
    ordered = np.sort(values, axis=1)
    wanted = (np.arange(_QUANTILES) * 2 + 1) * values.shape[1] // (2 * _QUANTILES)
    thinned: _Ints = ordered[:, wanted]
    return thinned


_Bools = NDArray[np.bool_]


class RowsOfRun(Struct, frozen=True, eq=False):
    """Rows of a run by step.

    Args:
        run: the run.
        ns: rows x samples: times, summed over ranks.
        counts: rows x samples: how often, summed over ranks.
    """

    run: RunProfile
    ns: _Ints
    counts: _Ints

    @property
    def is_there(self) -> _Bools:
        """Return whether each row is in any step."""
        return np.asarray((self.counts > 0).any(axis=1))

    @property
    def is_irregular(self) -> _Bools:
        """Return whether each row is in some steps and not in others."""
        return np.asarray(self.is_there & (self.counts == 0).any(axis=1))

    @property
    def mean_counts(self) -> _Floats:
        """Return how often each row is in a step and rank."""
        found: _Floats = self.counts.sum(axis=1) / self.run.divisor
        return found


def matrix(frame: pl.DataFrame, rows: _Ints, count: int, samples: int, column: str) -> _Ints:
    """A column of a frame as rows x samples; 0 if nothing is."""
    found = np.zeros((count, samples), dtype=np.int64)
    inside = rows >= 0
    np.add.at(
        found,
        (rows[inside], frame.get_column("sample").to_numpy()[inside]),
        frame.get_column(column).to_numpy()[inside],
    )
    return found


def means(totals: _Ints, run: RunProfile) -> _Ints:
    """Totals over all steps and ranks as means of one, to the nearest integer."""
    found: _Ints = (2 * totals + run.divisor) // (2 * run.divisor)
    return found


def change_of_counts(a: RowsOfRun, b: RowsOfRun) -> _Bools:
    """Return whether no step of one run has a count within the range of the other."""
    if not a.run.samples or not b.run.samples:
        return np.zeros(len(a.counts), dtype=np.bool_)
    more = b.counts.min(axis=1) > a.counts.max(axis=1)
    found: _Bools = more | (b.counts.max(axis=1) < a.counts.min(axis=1))
    return found


def tested_pairs(a: RowsOfRun, b: RowsOfRun, wanted: _Bools) -> Tested:
    """Each row's shift for a step and rank, with its interval and its probability; NaN if it is not wanted."""
    rows = np.flatnonzero(wanted)
    tested = compare_samples((a.run, a.ns[rows]), (b.run, b.ns[rows]))
    ranks = max(1, len(a.run.ranks))
    found = [np.full(len(wanted), np.nan) for _ in range(5)]
    times = (tested.shift / ranks, tested.low / ranks, tested.high / ranks)
    for whole, part in zip(found, (*times, tested.p, tested.effective), strict=True):
        whole[rows] = part
    return Tested(*found)


def shift_columns(tested: Tested) -> list[pl.Series]:
    """`shift_ns`, `low_ns` and `high_ns`; null for NaN."""
    columns = {"shift_ns": tested.shift, "low_ns": tested.low, "high_ns": tested.high}
    return [
        pl.Series(name, values + 0.0, dtype=pl.Float64).fill_nan(None) for name, values in columns.items()
    ]


def significance_columns(p: _Floats, alpha: float) -> list[pl.Series]:
    """`p` and `significant`; null for NaN."""
    known = pl.Series("p", p, dtype=pl.Float64).fill_nan(None)
    return [known, (known <= alpha).alias("significant")]


def are_captures_the_sample(a: RunProfile, b: RunProfile) -> bool:
    """Return whether a run has several captures."""
    return max(len(a.steps_of_captures), len(b.steps_of_captures)) > 1


def alpha_of(a: RunProfile, b: RunProfile) -> float:
    """Probability of a false alarm in a comparison of two runs."""
    return CAPTURES_ALPHA if are_captures_the_sample(a, b) else ALPHA


def compare_samples(a: tuple[RunProfile, _Ints], b: tuple[RunProfile, _Ints]) -> Tested:
    """Compare the rows of two matrices, rows x samples of these runs: by steps, or by captures if there are several."""
    if not are_captures_the_sample(a[0], b[0]):
        return compare_rows(a[1], b[1])
    first, second = medians_of_captures(*a), medians_of_captures(*b)
    if not (a[0].has_steps and b[0].has_steps):
        # A trace is as long as its recording: the lengths of two say nothing about the program.
        first = second = first[:, :0]
    return Tested(*welch(first, second), np.full(len(first), np.nan))


def medians_of_captures(run: RunProfile, values: _Ints) -> _Floats:
    """The median of each row over the steps of each capture: rows x captures that have steps."""
    found = [np.median(part, axis=1) for part in run.by_capture(values) if part.shape[1]]
    return np.stack(found, axis=1) if found else np.empty((len(values), 0))


def diff_steps(a: RunProfile, b: RunProfile) -> pl.DataFrame:
    """The step's time over all ranks, and of each: `DIFF_STEPS`.

    The time of a job's step is the mean of its ranks: it is what parts of ranks add up to, and needs no common clock.
    """
    first, second = (np.concatenate([run.spans.sum(axis=0, keepdims=True), run.spans]) for run in (a, b))
    tested = compare_samples((a, first), (b, second))
    counts = [len(a.ranks), *[1] * len(a.ranks)]
    several = are_captures_the_sample(a, b)
    medians = [medians_of_captures(run, spans) for run, spans in ((a, first), (b, second))]
    spreads = spread(*medians)
    found = pl.concat(
        _row(
            first[row],
            second[row],
            tested.row(row),
            ranks,
            [float(of_run[row].mean()) if of_run.shape[1] else None for of_run in medians],
            float(spreads[row]),
            alpha_of(a, b),
        )
        for row, ranks in enumerate(counts)
    )
    depends = {
        f"autocorrelation_{run}": np.full(len(counts), np.nan) if several else autocorrelations(spans)
        for run, spans in (("a", first), ("b", second))
    }
    ranks = pl.Series("rank", [None, *a.ranks], dtype=pl.Int64)
    return DIFF_STEPS.conform(
        found.with_columns(
            ranks,
            *(pl.Series(name, values, dtype=pl.Float64).fill_nan(None) for name, values in depends.items()),
            pl.Series("effective_steps", tested.effective, dtype=pl.Float64).fill_nan(None),
            pl.lit(a.samples).alias("steps_a"),
            pl.lit(b.samples).alias("steps_b"),
            pl.lit(a.left_out.height).alias("left_out_a"),
            pl.lit(b.left_out.height).alias("left_out_b"),
            pl.lit(medians[0].shape[1]).alias("captures_a"),
            pl.lit(medians[1].shape[1]).alias("captures_b"),
        )
    )


def mean_span(spans: _Ints, divisor: int) -> int:
    """The mean of some lengths, in whole ns, rounded down: parts are rounded so that they add up to it."""
    return int(spans.sum()) // max(1, divisor)


def _row(
    first: _Ints,
    second: _Ints,
    tested: Tested,
    ranks: int,
    medians: list[float | None],
    spread_ns: float,
    alpha: float,
) -> pl.DataFrame:
    mean_a, mean_b = (mean_span(spans, len(spans) * ranks) for spans in (first, second))
    medians = [None if median is None else median / ranks for median in medians]
    shift, low, high = (
        (column / ranks) if column.is_not_null().all() else column for column in shift_columns(tested)
    )
    median = medians[0]
    shift_share = (
        float(tested.shift[0]) / ranks / median if median and not np.isnan(tested.shift[0]) else None
    )
    return pl.DataFrame(
        {
            "a_ns": [mean_a],
            "b_ns": [mean_b],
            "difference_ns": [mean_b - mean_a],
            "difference_share": pl.Series([(mean_b - mean_a) / mean_a if mean_a else None], dtype=pl.Float64),
            "median_a_ns": pl.Series([medians[0]], dtype=pl.Float64),
            "median_b_ns": pl.Series([medians[1]], dtype=pl.Float64),
            "shift_ns": shift,
            "low_ns": low,
            "high_ns": high,
            "shift_share": pl.Series([shift_share], dtype=pl.Float64),
            "spread_share": pl.Series([spread_ns / ranks / median if median else None], dtype=pl.Float64),
        }
    ).with_columns(pl.col("spread_share").fill_nan(None), *significance_columns(tested.p, alpha))
