"""A planted job with a straggler, and what the charts of its report hold."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import tracebraid
from tests.planted import Cause, PlannedJob, TrueCollective
from tracebraid.api.reporting import ReportOptions, run_results
from tracebraid.model.report import Chart, RunResults, Section

RANKS, STEPS, LATE = 6, 8, 3
"""Ranks, steps, and the rank that is late in each step."""


@cache
def straggling() -> tuple[RunResults, tuple[TrueCollective, ...]]:
    """The results of the job, and the collectives that were planted in it."""
    job = PlannedJob(RANKS)
    for number in range(STEPS):
        with job.step(number):
            job.compute(400_000)
            job.delay(LATE, Cause.OP, 300_000)
            job.collective("allreduce", nelems=1 << (10 + number))
    with TemporaryDirectory() as folder:
        job.write(Path(folder))
        results = run_results(tracebraid.open(folder), ReportOptions(with_graph=False))
    return results, tuple(job.collectives)


def charts_of(section: Section | None) -> dict[str, Chart]:
    """The charts of a section by their ids."""
    parts = () if section is None else section.parts
    return {part.id: part for part in parts if isinstance(part, Chart)}
