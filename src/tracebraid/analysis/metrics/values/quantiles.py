"""What is a quantile of the steps, of each rank and of all, and how well do the steps determine it?"""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl

from tracebraid.analysis.distributions.binomial import exactly
from tracebraid.analysis.distributions.student import CONFIDENCE
from tracebraid.model.questions.metric import VALUES

__all__ = ["quantile_values"]


def quantile_values(samples: pl.DataFrame, quantile: float) -> pl.DataFrame:
    """`VALUES` of a quantile of the steps' amounts; of all ranks that of the slowest rank of each step.

    It is interpolated between steps, as numpy's `percentile`. The interval assumes no distribution: it reaches from one
    step to another in the order of amounts, such that each of the two is beyond the true quantile with a probability
    of at most 2.5 %, by the binomial distribution (David & Nagaraja, "Order Statistics", 7.1). It needs 6 steps for
    the median, and 72 for the 95th percentile.

    Args:
        samples: rank, step, occurrence, amount; a row per step and rank. What is in no step does not count.
        quantile: above 0, below 1.
    """
    samples = samples.filter(pl.col("amount").is_not_null() & pl.col("step").is_not_null())
    slowest = samples.group_by("step", "occurrence", maintain_order=True).agg(pl.col("amount").max())
    ranks = samples.get_column("rank").n_unique()
    rows = [_row(None, slowest, ranks, quantile)] if ranks else []
    for (rank,), of_rank in samples.sort("rank").group_by("rank", maintain_order=True):
        rows.append(_row(rank, of_rank, 1, quantile))
    columns = list(VALUES.polars_schema())
    return VALUES.conform(pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None))


def _row(rank: object, samples: pl.DataFrame, ranks: int, quantile: float) -> tuple[object, ...]:
    amounts = np.sort(samples.get_column("amount").to_numpy())
    first, last = _ends(len(amounts), quantile)
    low = None if first is None else float(amounts[first])
    high = None if last is None else float(amounts[last])
    if low is None or high is None:
        low = high = None
    return rank, float(np.quantile(amounts, quantile)), low, high, len(amounts), ranks


@cache
def _ends(count: int, quantile: float) -> tuple[int | None, int | None]:
    """The indices of the order statistics, from 0, between which the quantile is; None: there is none.

    The amount with index i is above the quantile with probability P(B <= i), and below it with P(B >= i + 1), where B
    is binomial with `count` trials.
    """
    tail = (1 - CONFIDENCE) / 2
    chances = [exactly(k, count, quantile) for k in range(count + 1)]
    up_to = np.cumsum(chances)
    from_here = np.cumsum(chances[::-1])[::-1]
    low = np.flatnonzero(up_to[:count] <= tail)
    high = np.flatnonzero(from_here[1:] <= tail)
    return (int(low[-1]) if len(low) else None), (int(high[0]) if len(high) else None)
