"""Lines on how well the model of a dependency graph reproduces the measured times."""

from __future__ import annotations

from tracebraid.model.graph import ReplayError
from tracebraid.model.quantities import percent

_NOTABLE_MODELLED = 0.05
"""Share of the replayed time; if more is unexplained, a small error proves little."""


def error_lines(error: ReplayError) -> list[str]:
    """Report the error of the model; nothing if it was not compared."""
    if error.median is None or error.p95 is None:
        return []
    line = f"A replay without measured starts misses the time of a step by {percent(error.median)}"
    if error.steps > 1:
        line += f" (median of {error.steps:,} steps), {percent(error.p95)} (95th percentile)"
    if error.next_step_median is not None:
        line += f"; a step predicted from the one before, by {percent(error.next_step_median)}"
    share = error.modelled_share
    if share is not None and share > _NOTABLE_MODELLED:
        line += f"; {percent(share)} of that time is unexplained, and assumed to be as usual"
    return [f"{line}."]
