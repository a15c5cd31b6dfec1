"""All analyses over the ranks of a job, in the order in which they are listed."""

from __future__ import annotations

from tracebraid.analysis.collectives.catalog import ANALYSES as COLLECTIVES
from tracebraid.analysis.ranks.catalog import ANALYSES as RANKS
from tracebraid.model.questions.job_analysis import JobAnalysis

__all__ = ["JOB_ANALYSES"]

JOB_ANALYSES: tuple[JobAnalysis, ...] = (*COLLECTIVES, *RANKS)
