"""What a report draws that is no answer of an analysis, such as the slices of the timeline and the frames of flames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from tracebraid.api.reporting.memory_view import memory_view
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.run_results import RunResults

__all__ = ["JOB_VIEWS", "RANK_VIEWS", "JobView", "RankView", "ViewOptions"]


@dataclass(frozen=True)
class ViewOptions:
    """What a view of a rank shows.

    Args:
        steps: names of the steps; empty: no step is marked, and the whole trace counts.
        annotation: what marks a step.
        ranks: how many ranks are shown, among which the rows of the page are shared.
    """

    steps: tuple[str, ...]
    annotation: str
    ranks: int


RankView: TypeAlias = Callable[[LinkedTrace, ViewOptions], Mapping[str, pl.DataFrame]]
"""Takes tables of a rank, by their names in `RunResults.views`, where the rows of all detailed ranks stand."""

JobView: TypeAlias = Callable[[RunResults], Mapping[str, pl.DataFrame]]
"""Makes tables of all results, by their names in `RunResults.views`; may replace those of a rank's view."""

RANK_VIEWS: tuple[RankView, ...] = (memory_view,)

JOB_VIEWS: tuple[JobView, ...] = ()
