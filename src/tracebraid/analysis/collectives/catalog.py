"""The analyses of collectives over all ranks."""

from __future__ import annotations

from tracebraid.model.job_analysis import JobAnalysis

__all__ = ["ANALYSES"]

ANALYSES: tuple[JobAnalysis, ...] = ()
