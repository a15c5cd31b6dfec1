"""The analyses of ranks against each other."""

from __future__ import annotations

from tracebraid.analysis.ranks.clocks import clocks
from tracebraid.model.analysis import Family, Need
from tracebraid.model.job_analysis import JobAnalysis
from tracebraid.model.schema.ranks import CLOCKS

__all__ = ["ANALYSES"]

ANALYSES: tuple[JobAnalysis, ...] = (
    JobAnalysis("clocks", Family.RANKS, clocks, CLOCKS, needs=(Need.SEVERAL_RANKS, Need.COMMUNICATION)),
)
