"""Formulas of bandwidth and latency of collectives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracebraid.model.collectives import CollectiveType

_ROUNDS = 30
"""Rounds of reweighting; the weights have converged long before."""
_HUBER = 1.345
"""Standard deviations above which residuals get less weight: 95 % efficiency on normal ones (Huber 1981)."""
_MAD_TO_STD = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""
_QUANTILE = 1.959964
"""Standard deviations of the normal distribution that contain 95 %."""
_LEAST_SCALE = 1e-9
"""Minimum scale of relative residuals, so that exact points keep a weight."""
_ROUNDING = 1e-9
"""Relative error of a weight."""

_Floats = npt.NDArray[np.float64]


class AlphaBeta(Struct, frozen=True):
    """The line time = alpha + slope * size.

    Args:
        alpha: ns, not below 0.
        slope: ns per byte, not below 0.
        alpha_error, slope_error: half of their 95 % intervals; None for fewer than 3 points.
        error_share: median of |time - fit| / fit.
        r_squared: share of the variance of the times that the line explains; None if they do not vary.
    """

    alpha: float
    slope: float
    alpha_error: float | None
    slope_error: float | None
    error_share: float
    r_squared: float | None


def fit_alpha_beta(sizes: _Floats, times: _Floats) -> AlphaBeta:
    """Fit a line by weighted least squares, where errors are relative to the time, reweighted after Huber."""
    design = np.column_stack([np.ones_like(sizes), sizes])
    alpha, slope = _medians_line(sizes, times)
    fit = np.maximum(alpha + slope * sizes, times.min())
    weights = np.ones_like(times)
    for _ in range(_ROUNDS):
        weights = _weights(times, fit)
        alpha, slope = _bounded(design, times, weights)
        # A fit near 0 would weigh without bound.
        fit = np.maximum(alpha + slope * sizes, times.min() / 2)
    errors = _errors(design, times - (alpha + slope * sizes), (weights, fit), (alpha > 0, slope > 0))
    return AlphaBeta(
        alpha,
        slope,
        *errors,
        error_share=float(np.median(np.abs(times - fit) / fit)),
        r_squared=_r_squared(times, alpha + slope * sizes),
    )


def _medians_line(sizes: _Floats, times: _Floats) -> tuple[float, float]:
    """The line through the median times of the least and the greatest size: where to begin."""
    low, high = sizes.min(), sizes.max()
    first, last = np.median(times[sizes == low]), np.median(times[sizes == high])
    slope = max(0.0, float((last - first) / (high - low)))
    return max(0.0, float(first - slope * low)), slope


def _weights(times: _Floats, fit: _Floats) -> _Floats:
    """Weights: one over the squared fit, less for outliers."""
    relative = np.abs(times - fit) / fit
    scale = max(_MAD_TO_STD * float(np.median(relative)), _LEAST_SCALE)
    far = np.maximum(relative / (_HUBER * scale), 1.0)
    weights: _Floats = 1.0 / (fit * fit * far)
    return weights


def _bounded(design: _Floats, times: _Floats, weights: _Floats) -> tuple[float, float]:
    """Alpha and slope of least squares; a negative one is set to 0 and the other is fitted alone."""
    root = np.sqrt(weights)
    # Columns of length 1: sizes are 1e9 times what stands beside them.
    columns = design * root[:, None]
    norms = np.linalg.norm(columns, axis=0)
    norms[norms == 0] = 1.0
    alpha, slope = np.linalg.lstsq(columns / norms, times * root, rcond=None)[0] / norms
    if slope < 0:
        return float(np.average(times, weights=weights)), 0.0
    if alpha < 0:
        sizes = design[:, 1]
        return 0.0, float((weights * sizes * times).sum() / (weights * sizes * sizes).sum())
    return float(alpha), float(slope)


def _errors(
    design: _Floats, residuals: _Floats, weighing: tuple[_Floats, _Floats], free: tuple[bool, bool]
) -> tuple[float | None, float | None]:
    """Half of the 95 % intervals, by the sandwich estimator: errors may differ from point to point (Huber 1967)."""
    weights, fit = weighing
    if len(residuals) <= sum(free) or len(residuals) <= 2:
        return None, None
    errors = [0.0, 0.0]
    rows = [row for row in (0, 1) if free[row]]
    columns = design[:, rows]
    norms = np.linalg.norm(columns * np.sqrt(weights)[:, None], axis=0)
    norms[norms == 0] = 1.0
    columns = columns / norms
    # The derivative of Huber's influence is 0 for the points that weigh less.
    whole = 1.0 / (fit * fit)
    near = np.where(weights >= whole * (1 - _ROUNDING), whole, 0.0)
    bread = np.linalg.pinv(columns.T @ (columns * near[:, None]))
    scores = columns * (weights * residuals)[:, None]
    points = len(residuals)
    covariance = bread @ (scores.T @ scores) @ bread * points / max(1, points - len(rows))
    for position, row in enumerate(rows):
        errors[row] = float(_QUANTILE * np.sqrt(max(0.0, covariance[position, position])) / norms[position])
    return errors[0], errors[1]


def _r_squared(times: _Floats, fit: _Floats) -> float | None:
    total = float(((times - times.mean()) ** 2).sum())
    return 1.0 - float(((times - fit) ** 2).sum()) / total if total > 0 else None


_NS = 1e9
_ON_WHOLE_OUTPUT = (CollectiveType.ALL_GATHER.value, CollectiveType.GATHER.value)
_ON_WHOLE_INPUT = (CollectiveType.REDUCE_SCATTER.value, CollectiveType.SCATTER.value)
_ALL_BUT_OWN = (*_ON_WHOLE_OUTPUT, *_ON_WHOLE_INPUT, CollectiveType.ALL_TO_ALL.value)


def size_of() -> pl.Expr:
    """The size that the formula takes, in bytes; null: unknown, and of a barrier.

    Of an all-gather and a gather it is all that is gathered, of a reduce-scatter and a scatter all that is scattered;
    of an all-to-all what the busiest rank gives or gets, its own part included; else the message.

    Columns:
        type: `CollectiveType`.
        group_size: ranks of the group.
        in_bytes, out_bytes: what a rank gives and gets, the most of all members.
    """
    given, got = pl.col("in_bytes"), pl.col("out_bytes")
    size = (
        pl.when(pl.col("type").is_in(_ON_WHOLE_OUTPUT))
        .then(_whole(got, given))
        .when(pl.col("type").is_in(_ON_WHOLE_INPUT))
        .then(_whole(given, got))
        .when(pl.col("type") != CollectiveType.BARRIER.value)
        .then(pl.max_horizontal(given, got))
    )
    return pl.when(size >= 0).then(size)


def algorithm_rate(transfer: pl.Expr) -> pl.Expr:
    """Algorithm bandwidth in bytes/s: `size_bytes` over the time of the transfer; null if that is 0."""
    return pl.when(transfer > 0).then(pl.col("size_bytes") / transfer * _NS)


def bus_rate() -> pl.Expr:
    """Bus bandwidth in bytes/s: `algorithm_bytes_per_s` times the factor of the type.

    With n ranks: 2 (n - 1) / n for an all-reduce; (n - 1) / n for an all-gather, reduce-scatter, all-to-all, gather and
    scatter; 1 for a broadcast, reduce, send and receive.
    """
    others = pl.when(pl.col("group_size") > 0).then((pl.col("group_size") - 1) / pl.col("group_size"))
    factor = (
        pl.when(pl.col("type") == CollectiveType.ALL_REDUCE.value)
        .then(2 * others)
        .when(pl.col("type").is_in(_ALL_BUT_OWN))
        .then(others)
        .when(pl.col("type").is_not_null())
        .then(pl.lit(1.0))
    )
    return pl.col("algorithm_bytes_per_s") * factor


def _whole(whole: pl.Expr, part: pl.Expr) -> pl.Expr:
    """The whole size, else the part of one rank times the number of ranks."""
    return pl.when(whole > 0).then(whole).otherwise(pl.coalesce(part * pl.col("group_size"), whole))
