"""The declared detectors: each `Detector` or `JobDetector` that a module of this package holds."""

from __future__ import annotations

from functools import cache

from tracebraid.analysis import antipatterns
from tracebraid.model.declared import declared
from tracebraid.model.questions import Detector, JobDetector


@cache
def rank_detectors() -> tuple[Detector, ...]:
    """Return the detectors of one rank, in alphabetical order."""
    return tuple(sorted(declared(antipatterns, Detector), key=lambda detector: detector.name))


@cache
def job_detectors() -> tuple[JobDetector, ...]:
    """Return the detectors between ranks, in alphabetical order."""
    return tuple(sorted(declared(antipatterns, JobDetector), key=lambda detector: detector.name))
