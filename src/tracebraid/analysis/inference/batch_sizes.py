"""How large are the batches of inference, as they follow in time?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.inference.iterations import iterations_by_step
from tracebraid.model.answers.inference import BATCH_SIZES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["batch_sizes"]

_KEY = ("lane", "step", "phase", "requests", "context_requests", "generation_requests")
"""What the iterations of a stretch share."""


def batch_sizes(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Stretches of iterations of the same size, in the order of their starts: `model.answers.BATCH_SIZES`.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    found = iterations_by_step(linked, annotation).sort("lane", "start_ns", "event_id")
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in _KEY)
    tokens = pl.col("tokens")
    stretches = (
        found.with_columns(differs.cast(pl.Int64).cum_sum().alias("stretch"))
        .group_by("stretch", maintain_order=True)
        .agg(
            pl.col(*_KEY).first(),
            pl.col("start_ns").first(),
            ((pl.col("start_ns") + pl.col("span_ns")).max() - pl.col("start_ns").first()).alias("span_ns"),
            pl.len().alias("iterations"),
            pl.when(tokens.is_not_null().all()).then(tokens.sum()).alias("tokens"),
        )
        .sort("start_ns", "stretch")
    )
    return answer(BATCH_SIZES, stretches, linked, annotation)
