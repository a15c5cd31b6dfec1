"""`ReplayError`: how well a replay without any measured start reproduces the measured times of steps."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReplayError"]


@dataclass(frozen=True)
class ReplayError:
    """By how much the times of steps, replayed with modelled latencies, differ from the measured ones.

    Args:
        steps: how many steps were compared.
        median: median over the steps of |replayed - measured| / measured; None: no step was compared.
        p95: their 95th percentile.
        next_steps: how many steps were predicted from the step before them.
        next_step_median: the same median of these predictions; None: no step was predicted.
        next_step_p95: their 95th percentile.
        modelled_share: median share of the replayed time that is residuals, along the chain that ends with each step;
            None: of a single rank.
    """

    steps: int = 0
    median: float | None = None
    p95: float | None = None
    next_steps: int = 0
    next_step_median: float | None = None
    next_step_p95: float | None = None
    modelled_share: float | None = None
