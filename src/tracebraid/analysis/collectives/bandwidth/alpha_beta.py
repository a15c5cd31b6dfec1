"""What line fits times over sizes, when some times are far off?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["AlphaBeta", "fit_alpha_beta"]

_ROUNDS = 30
"""Rounds of reweighting; the weights have converged long before."""
_HUBER = 1.345
"""Residuals above so many standard deviations weigh less: 95 % efficiency on normal ones (Huber 1981)."""
_MAD_TO_STD = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""
_QUANTILE = 1.959964
"""Of the normal distribution: 95 % lie within so many standard deviations."""
_LEAST_SCALE = 1e-9
"""Of relative residuals, so that exact points keep a weight."""
_ROUNDING = 1e-9
"""Relative error of a weight."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AlphaBeta:
    """The line time = alpha + slope * size.

    Args:
        alpha: ns, not below 0.
        slope: ns per byte, not below 0.
        alpha_error, slope_error: half of their 95 % intervals; None for fewer than 3 points.
        error_share: median of |time - fit| / fit.
        r_squared: share of the variance of the times that the line explains; None where they do not vary.
    """

    alpha: float
    slope: float
    alpha_error: float | None
    slope_error: float | None
    error_share: float
    r_squared: float | None


def fit_alpha_beta(sizes: _Floats, times: _Floats) -> AlphaBeta:
    """Fit a line by weighted least squares, where errors are relative to the time, reweighted after Huber.

    Args:
        sizes: bytes, at least two different ones.
        times: ns, above 0.
    """
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
    """One over the squared fit, less for what is far from it."""
    relative = np.abs(times - fit) / fit
    scale = max(_MAD_TO_STD * float(np.median(relative)), _LEAST_SCALE)
    far = np.maximum(relative / (_HUBER * scale), 1.0)
    weights: _Floats = 1.0 / (fit * fit * far)
    return weights


def _bounded(design: _Floats, times: _Floats, weights: _Floats) -> tuple[float, float]:
    """Alpha and slope of least squares; where either would be below 0, it is 0 and the other is fitted alone."""
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
