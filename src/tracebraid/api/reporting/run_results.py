"""The results that a report of a run is made from, in as few passes over the ranks as can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracebraid.api.analyses import analyze
from tracebraid.api.traces import info
from tracebraid.model.job import Job
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.step import PROFILER_STEP

__all__ = ["run_results"]

_ASKED: Mapping[str, Mapping[str, Any]] = {"step_times": {}, "breakdown": {}, "kernels": {}, "ops": {}}
"""The analyses that a report asks, and their options."""


def run_results(job: Job, annotation: str = PROFILER_STEP) -> RunResults:
    """The results of a job.

    Args:
        job: the ranks.
        annotation: what marks a step, see `steps`.
    """
    answers = {name: analyze(name, job, **options) for name, options in _ASKED.items()}
    infos = [info(path) for files in job.files for path in (files.et, files.kineto) if path is not None]
    starts = [found.start_ns for found in infos if found.start_ns is not None]
    return RunResults(
        job.path,
        job.ranks,
        infos,
        dict(job.each(lambda linked: (linked.rank, linked.coverage))),
        answers,
        job.findings,
        min(starts, default=0),
    )
