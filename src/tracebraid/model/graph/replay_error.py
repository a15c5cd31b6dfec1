"""`ReplayError`: how well a replay without any measured start reproduces the measured times of steps."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReplayError"]


@dataclass(frozen=True)
class ReplayError:
    """By how much replayed times of steps differ from the measured ones, without sign, as shares of the measured.

    Args:
        steps: how many steps were compared; 0: none, and all else is None.
        median: of the replay of each step with modelled latencies.
        p95: their 95th percentile.
        next_median: of what each step says about the next.
        next_p95: their 95th percentile.
        modelled_share: median share of a step's time that is residuals.
    """

    steps: int = 0
    median: float | None = None
    p95: float | None = None
    next_median: float | None = None
    next_p95: float | None = None
    modelled_share: float | None = None
