"""The analyses of collectives over all ranks."""

from __future__ import annotations

from tracebraid.analysis.collectives.matched_groups import matched_groups
from tracebraid.model.analysis import Family, Need
from tracebraid.model.answers import MATCHED_GROUPS
from tracebraid.model.job_analysis import JobAnalysis

__all__ = ["ANALYSES"]

ANALYSES: tuple[JobAnalysis, ...] = (
    JobAnalysis(
        "matched_groups",
        Family.COLLECTIVES,
        matched_groups,
        MATCHED_GROUPS,
        needs=(Need.COMMUNICATION,),
        uses=(Need.SEVERAL_RANKS, Need.COLLECTIVES),
    ),
)
