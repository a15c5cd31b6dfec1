"""Several captures of a run: which belong together, and the test whose sample is captures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.profiles import RankProfile
from tracebraid.analysis.distributions import student_quantile, student_within
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.job import DiffSetting
from tracebraid.model.quantities import percent
from tracebraid.model.questions import CAPTURES_ALPHA, LEAST_CAPTURES

_Floats = NDArray[np.float64]
Capture: TypeAlias = Sequence[RankProfile]
"""The ranks of one capture."""

_SAME_PROGRAM = 0.5
"""Share of the time of ops at call sites of both captures, below which they are not of one program."""


def welch(a: _Floats, b: _Floats) -> tuple[_Floats, _Floats, _Floats, _Floats]:
    """Compare the rows of two matrices of captures: shift, low, high and p of each row.

    With the means m, variances s² and counts n of both samples, the shift is m_b - m_a, its standard error
    e = sqrt(s_a²/n_a + s_b²/n_b), and (m_b - m_a) / e has Student's distribution with
    e⁴ / ((s_a²/n_a)² / (n_a - 1) + (s_b²/n_b)² / (n_b - 1)) degrees of freedom (Welch, "The generalization of
    'Student's' problem when several different population variances are involved", 1947); between
    whole degrees, values are interpolated by the reciprocal of degrees. The interval is the shift ± e times the
    quantile of 1 - `CAPTURES_ALPHA`. NaN with fewer than `LEAST_CAPTURES` of each.
    """
    means = [values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan) for values in (a, b)]
    shift = means[1] - means[0]
    half, p = np.full(len(a), np.nan), np.full(len(a), np.nan)
    confidence = 1 - CAPTURES_ALPHA
    if min(a.shape[1], b.shape[1]) >= LEAST_CAPTURES:
        parts = [values.var(axis=1, ddof=1) / values.shape[1] for values in (a, b)]
        error = np.sqrt(parts[0] + parts[1])
        terms = [part**2 / (values.shape[1] - 1) for part, values in zip(parts, (a, b), strict=True)]
        for row, (part, term) in enumerate(zip(error.tolist(), (terms[0] + terms[1]).tolist(), strict=True)):
            if not part:
                half[row], p[row] = 0.0, float(shift[row] == 0)
                continue
            degrees = part**4 / term
            half[row] = part * _at_degrees(degrees, student_quantile, confidence)
            p[row] = 1 - _at_degrees(
                degrees, lambda whole, t: student_within(t, whole), abs(shift[row]) / part
            )
    return shift, shift - half, shift + half, p


def _at_degrees(degrees: float, of_whole: Callable[[int, float], float], argument: float) -> float:
    """A function of whole degrees of freedom and an argument, at a number of degrees between them."""
    below = math.floor(degrees)
    above = below + 1
    weight = (1 / degrees - 1 / above) / (1 / below - 1 / above)
    return weight * of_whole(below, argument) + (1 - weight) * of_whole(above, argument)


def spread(a: _Floats, b: _Floats) -> _Floats:
    """Standard deviation of captures of one run, of both together; NaN with one of each."""
    degrees = a.shape[1] + b.shape[1] - 2
    if min(a.shape[1], b.shape[1]) < 1 or degrees < 1:
        return np.full(len(a), np.nan)
    squares = sum(((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for values in (a, b))
    found: _Floats = np.sqrt(squares / degrees)
    return found


def refuse_mixed(a: Sequence[Capture], b: Sequence[Capture]) -> None:
    """Refuse captures that are no sample of two programs.

    Raises:
        ArgumentError: a run has no capture; of several, one is given twice, or those of one run have other ranks,
            world sizes, annotations of steps or programs.
    """
    named = [_named("a", a), _named("b", b)]
    if len(a) + len(b) > 2:
        for (one, first), (other, second) in combinations([*named[0], *named[1]], 2):
            if _times(first) == _times(second):
                raise ArgumentError(f"{one} and {other} are the same: give each capture once")
    for run in named:
        for like in run[1:]:
            _refuse_unlike(*run[0], *like)


def _named(name: str, run: Sequence[Capture]) -> list[tuple[str, Capture]]:
    if not run:
        raise ArgumentError(f"{name} has no capture: give one or more of each run")
    paths = [next((rank.settings.get(DiffSetting.PATH) for rank in capture), None) for capture in run]
    return [
        (f"capture {number} of {name}" + (f" ({path})" if path else ""), capture)
        for number, (capture, path) in enumerate(zip(run, paths, strict=True), 1)
    ]


def _refuse_unlike(one: str, first: Capture, other: str, second: Capture) -> None:
    for what, value in (("ranks", _ranks), ("world sizes", _world), ("annotations of steps", _annotation)):
        if value(first) != value(second):
            raise ArgumentError(
                f"{one} and {other} have different {what}: {value(first)} and {value(second)}"
            )
    common = _common_share(first, second)
    if common < _SAME_PROGRAM:
        raise ArgumentError(
            f"{one} and {other} are of different programs: only {percent(common)} of the time is in ops of both"
        )


def _times(capture: Capture) -> object:
    """The lengths of all steps, in ns: no two captures have the same."""
    return [(rank.rank, rank.windows.get_column("span_ns").to_list()) for rank in capture]


def _ranks(capture: Capture) -> str:
    """The ranks of a capture; of a single one whichever it is."""
    return "one" if len(capture) == 1 else ", ".join(str(rank.rank) for rank in capture) or "none"


def _world(capture: Capture) -> str:
    sizes = (rank.settings.get(DiffSetting.WORLD_SIZE) for rank in capture)
    return ", ".join(dict.fromkeys(size or "unknown" for size in sizes))


def _annotation(capture: Capture) -> str:
    return capture[0].annotation if all(rank.has_steps for rank in capture) else "none"


def _common_share(a: Capture, b: Capture) -> float:
    """Share of the time of ops whose call site is in both; 1 without ops."""
    times = [
        pl.concat(
            rank.ops.select(
                rank.positions.get_column("path_id").gather(rank.ops.get_column("position")),
                (pl.col("host_ns") + pl.col("device_ns")).alias("ns"),
            )
            for rank in capture
        )
        for capture in (a, b)
    ]
    whole = sum(int(frame.get_column("ns").sum()) for frame in times)
    both = sum(
        int(frame.join(other, on="path_id", how="semi").get_column("ns").sum())
        for frame, other in (times, reversed(times))
    )
    return both / whole if whole else 1.0
