"""What a report draws that is no answer of an analysis, such as the slices of the timeline and the frames of flames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import polars as pl

from tracebraid.api.reporting.flame_views import flames_of_rank, flames_of_ranks
from tracebraid.api.reporting.memory_view import memory_view
from tracebraid.api.reporting.timeline_views import job_timeline, rank_timeline
from tracebraid.api.reporting.view_options import ViewOptions
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.run_results import RunResults

__all__ = ["JOB_VIEWS", "RANK_VIEWS", "JobView", "RankView", "ViewOptions"]


RankView: TypeAlias = Callable[[LinkedTrace, ViewOptions], Mapping[str, pl.DataFrame]]
"""Takes tables of a rank, by their names in `RunResults.views`, where the rows of all detailed ranks stand."""

JobView: TypeAlias = Callable[[RunResults, LinkedRanks], Mapping[str, pl.DataFrame]]
"""Makes tables of all results, and of the ranks linked with each other, by their names in
`RunResults.views`; may replace those of a rank's view."""

RANK_VIEWS: tuple[RankView, ...] = (rank_timeline, flames_of_rank, memory_view)

JOB_VIEWS: tuple[JobView, ...] = (job_timeline, flames_of_ranks)
