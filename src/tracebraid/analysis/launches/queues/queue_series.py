"""How does the queue of each stream grow and shrink over time?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.launched_work import STREAM
from tracebraid.analysis.launches.queues.queues import queue_changes_of
from tracebraid.model.answers import QUEUE_SERIES
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["queue_series"]


def queue_series(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The length of each stream's queue from each moment at which it changes: `model.answers.QUEUE_SERIES`.

    What joins and leaves a queue is HTA's: see `queue_lengths`. Of changes at one moment the last row holds.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    changes = queue_changes_of(linked, annotation)
    return answer(QUEUE_SERIES, changes.sort(*by_number(*STREAM), maintain_order=True), linked, annotation)
