"""How does the bandwidth of copies and fills change over time?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.copies.bandwidths import bandwidth_changes
from tracebraid.model.answers import COPY_BANDWIDTH_SERIES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["copy_bandwidth_series"]


def copy_bandwidth_series(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The sum of the bandwidths of running copies, by sort of copy: `model.answers.COPY_BANDWIDTH_SERIES`.

    HTA's `get_memory_bw_time_series`, by device. Of changes at one moment the last row holds.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    return answer(COPY_BANDWIDTH_SERIES, bandwidth_changes(linked, annotation), linked, annotation)
